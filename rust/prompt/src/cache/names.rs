//! What the names of a template stand for while it runs.

use std::sync::Arc;

use minijinja::machinery::ast::CompareOpKind;

use super::program::{Expr, Name, Program};
use super::stop::{Ran, Stop};
use super::trace::{Ask, Trace};
use super::value::{List, Val};

/// What names stand for.
pub(super) struct Names<'p> {
    pub(super) program: &'p Program,
    /// Variables from outside, by name.
    pub(super) globals: Vec<Option<Val>>,
    /// Names that were set, scope after scope.
    pub(super) locals: Vec<(Name, Val)>,
    /// Where the innermost scope begins.
    pub(super) scope: usize,
    /// Where the template's own scope ends, while inside another.
    pub(super) root: Option<usize>,
    /// Where the names begin that a macro sees.
    pub(super) floor: usize,
    pub(super) loops: Vec<Loop>,
    pub(super) namespaces: Vec<Vec<(Name, Val)>>,
    /// The messages of the chat.
    pub(super) messages: Option<Arc<List>>,
    /// The rounds that are noted.
    pub(super) trace: Option<Trace>,
}

/// A loop that runs.
pub(super) struct Loop {
    pub(super) items: Arc<List>,
    pub(super) at: usize,
}

impl<'p> Names<'p> {
    pub(super) fn new(program: &'p Program) -> Names<'p> {
        Names {
            program,
            globals: vec![None; program.names.len()],
            locals: Vec::with_capacity(32),
            scope: 0,
            root: None,
            floor: 0,
            loops: Vec::new(),
            namespaces: Vec::new(),
            messages: None,
            trace: None,
        }
    }
}

impl Names<'_> {
    /// The value of a variable that has one.
    pub(super) fn visible(&self, name: Name) -> Option<&Val> {
        let (place, value) = self.find(name);
        if let Some(trace) = &self.trace {
            trace.variable(name, place, value);
        }
        value
    }

    /// The value of a variable, and its place among the locals.
    fn find(&self, name: Name) -> (Option<usize>, Option<&Val>) {
        let named = |local: &(Name, Val)| local.0 == name;
        let local = self.locals[self.floor..].iter().rposition(named).map(|place| self.floor + place);
        let root = || self.locals[..self.floor.min(self.root.unwrap_or(0))].iter().rposition(named);
        match local.or_else(root) {
            Some(place) => (Some(place), Some(&self.locals[place].1)),
            None => (None, self.globals[usize::from(name)].as_ref()),
        }
    }

    /// A member of a namespace.
    pub(super) fn member(&self, number: usize, name: Name) -> Option<&Val> {
        let found = self.namespaces[number].iter().find(|(known, _)| *known == name);
        let value = found.map(|(_, value)| value);
        if let Some(trace) = &self.trace {
            trace.member(number, name, value);
        }
        value
    }

    /// An attribute of the loop `number`.
    pub(super) fn loop_attribute(&self, number: usize, name: &str) -> Ran<Val> {
        let inner = self.loops.get(number).ok_or(Stop)?;
        if let Some(trace) = &self.trace {
            trace.attribute(number, name, inner);
        }
        inner.attribute(name)
    }

    /// What `holds` says of what is asked for, between two rounds of the first loop.
    pub(super) fn answers(&self, ask: Ask, holds: impl FnOnce(Option<&Val>) -> bool) -> bool {
        match ask {
            Ask::Variable(name) => {
                let local = self.locals[..self.scope].iter().rev().find(|local| local.0 == name);
                holds(local.map(|(_, value)| value).or(self.globals[usize::from(name)].as_ref()))
            }
            Ask::Member(number, name) => {
                let members = self.namespaces.get(number).into_iter().flatten();
                holds(members.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value))
            }
            Ask::Message(index) => {
                holds(self.messages.as_ref().and_then(|messages| messages.items.get(index)))
            }
            Ask::Length => {
                let length = self.loops.last().map_or(0, |inner| inner.items.items.len());
                i64::try_from(length).is_ok_and(|length| holds(Some(&Val::Int(length))))
            }
        }
    }

    /// `on[key]` where `on` is a name of the chat's messages, while rounds are noted: that one is looked at.
    pub(super) fn message(&self, on: &Expr, key: &Expr) -> Option<Option<&Val>> {
        let (Some(trace), Expr::Variable(name)) = (&self.trace, on) else { return None };
        let (place, Some(Val::List(list))) = self.find(*name) else { return None };
        let from = list.chat?;
        let index = usize::try_from(self.integer(key)?).ok()?;
        let value = list.items.get(index);
        trace.messages(*name, place, from);
        trace.message(from.checked_add(index)?, value);
        Some(value)
    }

    /// Whether a comparison holds, while rounds are noted, of an integer from outside with one that is not: only
    /// the outcome is noted.
    pub(super) fn compare(&self, op: CompareOpKind, pair: &(Expr, Expr)) -> Option<bool> {
        let trace = self.trace.as_ref()?;
        match (self.outside(&pair.0), self.outside(&pair.1)) {
            (Some((ask, value)), None) => trace.compare(ask, op, value, self.integer(&pair.1)?),
            (None, Some((ask, value))) => {
                let op = match op {
                    CompareOpKind::Lt => CompareOpKind::Gt,
                    CompareOpKind::Lte => CompareOpKind::Gte,
                    CompareOpKind::Gt => CompareOpKind::Lt,
                    CompareOpKind::Gte => CompareOpKind::Lte,
                    op => op,
                };
                trace.compare(ask, op, value, self.integer(&pair.0)?)
            }
            _ => None,
        }
    }

    /// An integer that stands outside of the rounds that are noted.
    fn outside(&self, expr: &Expr) -> Option<(Ask, i64)> {
        let trace = self.trace.as_ref()?;
        match expr {
            Expr::Variable(name) => match self.find(*name) {
                (place, Some(Val::Int(value))) if trace.is_outside(place) => {
                    Some((Ask::Variable(*name), *value))
                }
                _ => None,
            },
            Expr::Attribute(on, name) => {
                let Expr::Variable(owner) = &**on else { return None };
                let (place, owned @ Some(Val::Namespace(number))) = self.find(*owner) else { return None };
                if !trace.is_unwritten(*number, *name) {
                    return None;
                }
                let (_, value) = self.namespaces[*number].iter().find(|(known, _)| known == name)?;
                let Val::Int(value) = value else { return None };
                trace.variable(*owner, place, owned);
                Some((Ask::Member(*number, *name), *value))
            }
            _ => None,
        }
    }

    /// The value of `expr` where it stands somewhere already; otherwise it is worked out with a copy.
    pub(super) fn peek<'s>(&'s self, expr: &'s Expr) -> Option<&'s Val> {
        match expr {
            Expr::Value(value) => Some(value),
            Expr::Variable(name) => self.visible(*name),
            Expr::Attribute(on, name) => match self.peek(on)? {
                Val::Map(map) => map.get(&self.program.names[usize::from(*name)]),
                Val::Namespace(number) => self.member(*number, *name),
                _ => None,
            },
            Expr::Item(on, key) => match self.message(on, key) {
                Some(found) => found,
                None => match self.peek(on)? {
                    Val::List(list) => list.items.get(usize::try_from(self.integer(key)?).ok()?),
                    _ => None,
                },
            },
            _ => None,
        }
    }

    /// The value of `expr` where it is an integer that needs no call.
    pub(super) fn integer(&self, expr: &Expr) -> Option<i64> {
        match expr {
            Expr::Minus(pair) => self.integer(&pair.0)?.checked_sub(self.integer(&pair.1)?),
            Expr::Remainder(pair) => match (self.integer(&pair.0)?, self.integer(&pair.1)?) {
                (a, b) if b > 0 => Some(a.rem_euclid(b)),
                _ => None,
            },
            Expr::Sum(terms) => {
                terms.iter().try_fold(0_i64, |sum, term| sum.checked_add(self.integer(term)?))
            }
            Expr::Attribute(on, name) if matches!(self.peek(on), Some(Val::Loop(_))) => {
                let Some(Val::Loop(number)) = self.peek(on) else { return None };
                let name = &self.program.names[usize::from(*name)];
                match self.loop_attribute(*number, name) {
                    Ok(Val::Int(value)) => Some(value),
                    _ => None,
                }
            }
            // Templates count the messages for each of them. While rounds are noted that is a look at each.
            Expr::Filter(call) if self.trace.is_none() && call.is_count() => match self.peek(&call.on)? {
                Val::List(list) if list.slice || !list.lazy => i64::try_from(list.items.len()).ok(),
                _ => None,
            },
            _ => match self.peek(expr)? {
                Val::Int(value) => Some(*value),
                _ => None,
            },
        }
    }
}

impl Loop {
    pub(super) fn attribute(&self, name: &str) -> Ran<Val> {
        let (at, items) = (self.at, &self.items.items);
        let length = items.len();
        let count = |number: usize| i64::try_from(number).map(Val::Int).map_err(|_| Stop);
        let neighbour = |item: Option<&Val>| Ok(item.cloned().unwrap_or(Val::Undefined));
        match name {
            "index0" => count(at),
            "index" => count(at + 1),
            "first" => Ok(Val::Bool(at == 0)),
            "last" => Ok(Val::Bool(at + 1 == length)),
            "length" => count(length),
            "revindex" => count(length - at),
            "revindex0" => count(length - at - 1),
            "previtem" => neighbour(at.checked_sub(1).and_then(|at| items.get(at))),
            "nextitem" => neighbour(items.get(at + 1)),
            _ => Err(Stop),
        }
    }
}

/// Gives the member `name` its value.
pub(super) fn set(members: &mut Vec<(Name, Val)>, name: Name, value: Val) {
    match members.iter_mut().find(|(known, _)| *known == name) {
        Some(member) => member.1 = value,
        None => members.push((name, value)),
    }
}
