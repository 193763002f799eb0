//! What a loop over the chat's messages did with those of a group, and what that depended on.
//!
//! A run is a function of the program and of what it reads. While a loop of the template's own scope goes
//! through a group, each look at something outside of its rounds is noted with what was found. Where the same
//! looks find the same again, the rounds would write the same text and set the same members of namespaces.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::{Arc, Weak};

use minijinja::machinery::ast::CompareOpKind;
use parking_lot::Mutex;

use super::names::{Loop, Names};
use super::program::Name;
use super::skeleton::Fragment;
use super::value::{List, Map, Str, Val};

/// Something outside of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// A variable that none of the rounds set.
    Variable(Name),
    /// A member of a namespace, before any of the rounds set it.
    Member(usize, Name),
    /// A message of the chat.
    Message(usize),
    /// How many items the loop has.
    Length,
}

/// What is true of something that was looked at.
#[derive(Debug)]
enum Answer {
    Absent,
    Value(Val),
    /// A part of a text, by the text's id.
    Part(u64, u32, u32),
    /// An integer from the first to the second: a comparison needs no more.
    Between(i64, i64),
    /// A map or a list, held so that nothing else can come to be in its place.
    Map(Weak<[Map]>, usize),
    List(Weak<List>),
    /// The messages of the chat from this one on, which are looked at one by one.
    Messages(usize),
}

impl Answer {
    /// That `value` is found; `None` where that cannot be told later.
    fn of(value: Option<&Val>) -> Option<Answer> {
        Some(match value {
            None => Answer::Absent,
            Some(Val::Int(value)) => Answer::Between(*value, *value),
            Some(Val::Map(map)) => Answer::Map(Arc::downgrade(&map.maps), map.at),
            Some(Val::List(list)) if list.source.is_some() => Answer::List(Arc::downgrade(list)),
            Some(Val::Str(Str::Part(part))) => Answer::Part(part.text.id, part.start, part.end),
            Some(Val::Str(Str::Rope(_)) | Val::List(_) | Val::Other(_) | Val::Loop(_)) => return None,
            Some(value) => Answer::Value(value.clone()),
        })
    }

    fn holds(&self, value: Option<&Val>) -> bool {
        match (self, value) {
            (Answer::Absent, None) => true,
            (Answer::Value(known), Some(value)) => same(known, value),
            (Answer::Part(id, start, end), Some(Val::Str(Str::Part(part)))) => {
                (*id, *start, *end) == (part.text.id, part.start, part.end)
            }
            (Answer::Between(low, high), Some(Val::Int(value))) => (low..=high).contains(&value),
            (Answer::Map(maps, at), Some(Val::Map(map))) => {
                *at == map.at && std::ptr::addr_eq(maps.as_ptr(), Arc::as_ptr(&map.maps))
            }
            (Answer::List(known), Some(Val::List(list))) => std::ptr::eq(known.as_ptr(), Arc::as_ptr(list)),
            (Answer::Messages(from), Some(Val::List(list))) => list.chat == Some(*from),
            _ => false,
        }
    }
}

fn same(a: &Val, b: &Val) -> bool {
    match (a, b) {
        (Val::Undefined, Val::Undefined) | (Val::None, Val::None) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        // Only where it is the same text in the same form: that shows in keys.
        (Val::Str(Str::Const(a)), Val::Str(Str::Const(b))) => a == b,
        (Val::Str(Str::Short(a)), Val::Str(Str::Short(b))) => a == b,
        (Val::Namespace(a), Val::Namespace(b)) | (Val::Macro(a), Val::Macro(b)) => a == b,
        _ => false,
    }
}

/// The rounds of a loop that are noted.
#[derive(Debug)]
pub(super) struct Trace {
    /// Variables from here on are the rounds' own.
    base: usize,
    /// Namespaces from here on, too.
    namespaces: usize,
    /// The loop's number.
    number: usize,
    /// The round that is first.
    at: usize,
    /// The messages of the group.
    from: usize,
    to: usize,
    notes: RefCell<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    asked: Vec<(Ask, Answer)>,
    written: Vec<(usize, Name)>,
    /// Something was looked at that cannot be compared later.
    lost: bool,
}

impl Trace {
    /// The `count` rounds from `at` on of the loop `number`, whose first is for the message `from`.
    pub(super) fn new(names: &Names<'_>, number: usize, at: usize, from: usize, count: usize) -> Trace {
        let (base, namespaces) = (names.scope, names.namespaces.len());
        Trace { base, namespaces, number, at, from, to: from + count, notes: RefCell::default() }
    }

    /// Notes what the variable `name` is, which stands at `place` among the locals.
    pub(super) fn variable(&self, name: Name, place: Option<usize>, value: Option<&Val>) {
        if self.is_outside(place) {
            self.notes.borrow_mut().ask(Ask::Variable(name), Answer::of(value));
        }
    }

    pub(super) fn is_outside(&self, place: Option<usize>) -> bool {
        place.is_none_or(|place| place < self.base)
    }

    pub(super) fn member(&self, number: usize, name: Name, value: Option<&Val>) {
        if self.is_unwritten(number, name) {
            self.notes.borrow_mut().ask(Ask::Member(number, name), Answer::of(value));
        }
    }

    pub(super) fn is_unwritten(&self, number: usize, name: Name) -> bool {
        number < self.namespaces && !self.notes.borrow().written.contains(&(number, name))
    }

    pub(super) fn write(&self, number: usize, name: Name) {
        if self.is_unwritten(number, name) && number < self.namespaces {
            self.notes.borrow_mut().written.push((number, name));
        }
    }

    /// Notes what the message `index` is, where it is not one of the group.
    pub(super) fn message(&self, index: usize, value: Option<&Val>) {
        if !(self.from..self.to).contains(&index) {
            self.notes.borrow_mut().ask(Ask::Message(index), Answer::of(value));
        }
    }

    /// Notes that the variable `name` is the messages of the chat from `from` on.
    pub(super) fn messages(&self, name: Name, place: Option<usize>, from: usize) {
        if self.is_outside(place) {
            self.notes.borrow_mut().ask(Ask::Variable(name), Some(Answer::Messages(from)));
        } else {
            self.lose();
        }
    }

    /// Notes what the attribute `name` of the loop `number` says of what is outside.
    pub(super) fn attribute(&self, number: usize, name: &str, inner: &Loop) {
        if number != self.number {
            return;
        }
        let (at, length) = (inner.at, inner.items.items.len());
        let place = (self.from + at).checked_sub(self.at);
        match (name, place) {
            ("index" | "index0" | "first", _) => {}
            ("last", _) if at + 1 < length => self.length(at + 2, usize::MAX),
            ("last" | "length" | "revindex" | "revindex0", _) => self.length(length, length),
            ("nextitem", Some(place)) => self.message(place + 1, inner.items.items.get(at + 1)),
            ("previtem", _) if at == 0 => {}
            ("previtem", Some(place)) if place > 0 => {
                self.message(place - 1, inner.items.items.get(at - 1));
            }
            _ => self.lose(),
        }
    }

    fn length(&self, low: usize, high: usize) {
        let bound = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.narrow(Ask::Length, bound(low), bound(high));
    }

    /// Notes the outcome of a comparison of `value`, which was asked for, with `other`.
    pub(super) fn compare(&self, ask: Ask, op: CompareOpKind, value: i64, other: i64) -> Option<bool> {
        let (holds, (low, high)) = outcome(op, value, other)?;
        self.narrow(ask, low, high);
        Some(holds)
    }

    fn narrow(&self, ask: Ask, low: i64, high: i64) {
        self.notes.borrow_mut().ask(ask, Some(Answer::Between(low, high)));
    }

    /// Gives up: what happens here is not only a matter of what is looked at.
    pub(super) fn lose(&self) {
        self.notes.borrow_mut().lost = true;
    }

    /// What the rounds did; `None` where it cannot be told when they would do it again, or they wrote more than
    /// `room` bytes.
    pub(super) fn finish(
        self,
        names: &Names<'_>,
        steps: usize,
        fragment: Fragment,
        room: usize,
    ) -> Option<Replay> {
        let Notes { asked, written, lost } = self.notes.into_inner();
        if lost || names.namespaces.len() != self.namespaces || fragment.length > room {
            return None;
        }
        let mut wrote = Vec::with_capacity(written.len());
        for (number, name) in written {
            let (_, value) = names.namespaces[number].iter().find(|(known, _)| *known == name)?;
            let is_plain =
                matches!(value, Val::Undefined | Val::None | Val::Bool(_) | Val::Int(_) | Val::Str(_));
            is_plain.then(|| wrote.push((number, name, value.clone())))?;
        }
        Some(Replay { asked: asked.into(), wrote: wrote.into(), steps, fragment: Arc::new(fragment) })
    }
}

impl Notes {
    fn ask(&mut self, ask: Ask, answer: Option<Answer>) {
        let Some(answer) = answer else {
            self.lost = true;
            return;
        };
        match self.asked.iter_mut().find(|(known, _)| *known == ask) {
            Some((_, Answer::Between(low, high))) => {
                if let Answer::Between(from, to) = answer {
                    (*low, *high) = ((*low).max(from), (*high).min(to));
                }
            }
            // Nothing outside changes but by what is written, which is not asked for any more.
            Some(_) => {}
            None => {
                self.lost |= self.asked.len() == MAX_ASKED;
                self.asked.push((ask, answer));
            }
        }
    }
}

/// Whether `value` compares so with `other`, and integers around `value` that all do.
fn outcome(op: CompareOpKind, value: i64, other: i64) -> Option<(bool, (i64, i64))> {
    let (below, above) = ((i64::MIN, other.saturating_sub(1)), (other.saturating_add(1), i64::MAX));
    let (to, from) = ((i64::MIN, other), (other, i64::MAX));
    Some(match op {
        CompareOpKind::Eq | CompareOpKind::Ne => {
            let range = match value.cmp(&other) {
                Ordering::Less => below,
                Ordering::Equal => (other, other),
                Ordering::Greater => above,
            };
            ((value == other) == matches!(op, CompareOpKind::Eq), range)
        }
        CompareOpKind::Gt => (value > other, if value > other { above } else { to }),
        CompareOpKind::Gte => (value >= other, if value >= other { from } else { below }),
        CompareOpKind::Lt => (value < other, if value < other { below } else { from }),
        CompareOpKind::Lte => (value <= other, if value <= other { to } else { above }),
        CompareOpKind::In | CompareOpKind::NotIn => return None,
    })
}

/// Looks that are kept for a group.
const MAX_ASKED: usize = 64;

/// What rounds did.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    asked: Arc<[(Ask, Answer)]>,
    /// Members of namespaces that were set.
    pub(super) wrote: Arc<[(usize, Name, Val)]>,
    /// Steps that were taken.
    pub(super) steps: usize,
    pub(super) fragment: Arc<Fragment>,
}

/// What loops did with the messages of a group, by loop and round.
#[derive(Debug, Default)]
pub(super) struct Traces(Mutex<Vec<(u32, usize, Option<Replay>)>>);

/// Runs that are kept for a group. A chat has one, and another one where its last messages are told apart.
const MAX_TRACES: usize = 4;

/// What is known of the rounds ahead.
pub(super) enum Ahead {
    Known(Replay),
    Unknown,
    /// They cannot be noted.
    Never,
}

impl Traces {
    /// What the loop `site` does from its round `at` on; `names` are as they are before it.
    pub(super) fn find(&self, site: u32, at: usize, names: &Names<'_>) -> Ahead {
        for (_, _, replay) in self.0.lock().iter().filter(|known| (known.0, known.1) == (site, at)) {
            let Some(replay) = replay else { return Ahead::Never };
            if replay.asked.iter().all(|(ask, answer)| names.answers(*ask, |value| answer.holds(value))) {
                return Ahead::Known(replay.clone());
            }
        }
        Ahead::Unknown
    }

    pub(super) fn put(&self, site: u32, at: usize, replay: Option<Replay>) {
        let mut traces = self.0.lock();
        if traces.len() == MAX_TRACES {
            traces.remove(0);
        }
        traces.push((site, at, replay));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Holds = fn(i64, i64) -> bool;

    #[test]
    fn what_is_noted_of_a_comparison_says_how_it_ends() {
        let kinds: [(CompareOpKind, Holds); 6] = [
            (CompareOpKind::Eq, |a, b| a == b),
            (CompareOpKind::Ne, |a, b| a != b),
            (CompareOpKind::Lt, |a, b| a < b),
            (CompareOpKind::Lte, |a, b| a <= b),
            (CompareOpKind::Gt, |a, b| a > b),
            (CompareOpKind::Gte, |a, b| a >= b),
        ];
        let numbers = [i64::MIN, i64::MIN + 1, -2, -1, 0, 1, 2, i64::MAX - 1, i64::MAX];
        for (op, expected) in kinds {
            for (value, other) in numbers.into_iter().flat_map(|a| numbers.map(|b| (a, b))) {
                let (holds, (low, high)) = outcome(op, value, other).unwrap();
                assert_eq!(holds, expected(value, other), "{op:?} {value} {other}");
                assert!((low..=high).contains(&value), "{op:?} {value} {other}");
                for like in numbers.into_iter().filter(|like| (low..=high).contains(like)) {
                    assert_eq!(expected(like, other), holds, "{op:?} {value} {other}: {like}");
                }
            }
        }
    }
}
