//! The messages of a chat: what is known of them is looked up, in groups, and the rest is read.

use std::sync::Arc;

use minijinja::Value;

use super::known::{Guess, Known};
use super::run::Groups;
use super::segments::{Beginning, Lookup};
use super::value::{Map, MapRef, Val};
use super::{Cache, MESSAGES, TOOLS};
use crate::template::ContentFormat;
use crate::work::Work;
use crate::{Body, Refused, chat};

/// How messages are read.
pub(super) struct Reading<'r> {
    pub(super) tag: u32,
    pub(super) format: ContentFormat,
    pub(super) work: &'r Work<'r>,
}

/// Messages that a chat begins with and that are known.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    cache: Arc<Cache>,
    groups: Vec<Arc<Known>>,
    /// Bytes of their JSON and of what is between them.
    pub(crate) length: usize,
}

impl Passed {
    /// Whether they are known here, and as `tag`.
    fn is_of(&self, cache: &Arc<Cache>, tag: u32) -> bool {
        Arc::ptr_eq(&self.cache, cache) && self.groups.iter().all(|group| group.tag == tag)
    }

    fn count(&self) -> usize {
        self.groups.iter().map(|group| group.messages.len()).sum()
    }
}

/// The messages of a group, which is the chat's first or not.
fn group_size(is_first: bool) -> usize {
    // The first one, which many chats may share, is a group of its own.
    if is_first { 1 } else { MESSAGES_IN_GROUP }
}

/// What stands for the hash of what precedes a chat's first message, and its tools.
const FIRST_MESSAGE: u64 = 0;
pub(super) const FIRST_TOOLS: u64 = 1;

/// Messages that are known as one, from the second one of a chat on.
const MESSAGES_IN_GROUP: usize = 8;

impl Cache {
    /// The messages that `ahead`, the inside of an array, begins with, as far as they are known in groups.
    pub(crate) fn pass(self: &Arc<Cache>, ahead: &[u8]) -> Option<Passed> {
        let (mut groups, mut at, mut length, mut before) = (Vec::new(), 0, 0, FIRST_MESSAGE);
        while let Some(text) = ahead.get(at..) {
            let hash = self.guesses.place(before, text).get();
            let Some(known) = self.values.get(&Beginning { hash, tags: MESSAGES..TOOLS, text }) else {
                break;
            };
            if known.messages.len() != group_size(groups.is_empty()) {
                break;
            }
            length = at + known.length;
            before = known.hash;
            groups.push(known);
            let is_space = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
            let space =
                |at: usize| ahead.get(at..).map_or(0, |rest| rest.iter().take_while(is_space).count());
            let comma = length + space(length);
            if ahead.get(comma) != Some(&b',') {
                break;
            }
            at = comma + 1 + space(comma + 1);
        }
        let cache = Arc::clone(self);
        (!groups.is_empty()).then_some(Passed { cache, groups, length })
    }

    /// The messages of `body`, and the groups of them with the place of the first in each.
    pub(super) fn messages(
        self: &Arc<Cache>,
        body: &Body<'_>,
        reading: &Reading<'_>,
    ) -> Option<(Vec<Val>, Groups)> {
        let (passed, list) = body.message_list()?;
        let ours = passed.filter(|passed| passed.is_of(self, reading.tag));
        // Those that another model's cache knows are found again.
        let all = match (passed, ours) {
            (Some(_), None) => chat::elements(body.messages().ok()?).ok()?,
            _ => Vec::new(),
        };
        let mut rest = if all.is_empty() { list } else { &all[..] };
        let count = ours.map_or(0, Passed::count) + rest.len();
        if count == 0 || count > chat::MAX_ELEMENTS {
            return None;
        }
        reading.work.look_up(count)?;
        let (mut messages, mut groups) = (Vec::with_capacity(count), Groups::new());
        let mut before = FIRST_MESSAGE;
        let mut add = |known: Arc<Known>| {
            let maps = &known.messages;
            let place = messages.len();
            messages.extend((0..maps.len()).map(|at| Val::Map(MapRef { maps: Arc::clone(maps), at })));
            groups.push((place, known));
        };
        for known in ours.into_iter().flat_map(|passed| &passed.groups) {
            reading.work.knew_raw(known.length);
            before = known.hash;
            add(Arc::clone(known));
        }
        let mut is_first = ours.is_none();
        while !rest.is_empty() {
            let size = group_size(is_first);
            let (elements, behind) = rest.split_at_checked(size).unwrap_or_else(|| rest.split_at(1));
            let known = self.group_of(before, body.raw(), elements, reading)?;
            (rest, is_first, before) = (behind, false, known.hash);
            add(known);
        }
        Some((messages, groups))
    }

    /// What is known of `elements`, which stand in a row in `body`; `before` is the hash of what precedes them.
    fn group_of(
        &self,
        before: u64,
        body: &[u8],
        elements: &[&str],
        reading: &Reading<'_>,
    ) -> Option<Arc<Known>> {
        let (ahead, length) = span(body, elements)?;
        let guess = Some(self.guesses.place(before, ahead));
        match elements {
            [raw] => self.message(guess, reading, raw),
            _ => {
                let raw = ahead.get(..length)?;
                self.known(guess, (reading.tag, raw), reading.work, || self.joined(reading, elements))
            }
        }
    }

    fn message(&self, guess: Option<Guess<'_>>, reading: &Reading<'_>, raw: &str) -> Option<Arc<Known>> {
        let Reading { tag, format, work } = *reading;
        self.known(guess, (tag, raw.as_bytes()), work, || {
            Known::message(self.counted(raw, work, || chat::message(raw, format))?)
        })
    }

    /// What is read of `raw`.
    pub(super) fn counted(
        &self,
        raw: &str,
        work: &Work<'_>,
        read: impl FnOnce() -> Result<Value, Refused>,
    ) -> Option<Value> {
        work.read(raw.len())?;
        self.counters.value_misses.add(raw.len());
        read().ok()
    }

    /// Messages side by side, each known by itself too: another chat may have some of them.
    fn joined(&self, reading: &Reading<'_>, elements: &[&str]) -> Option<Known> {
        let parts = elements.iter().map(|raw| self.message(None, reading, raw));
        let parts = parts.collect::<Option<Vec<_>>>()?;
        Some(Known::of(parts.iter().flat_map(|part| part.messages.iter().map(Map::copy)).collect()))
    }

    /// What `read` makes of `raw`, or made of it before.
    pub(super) fn known(
        &self,
        guess: Option<Guess<'_>>,
        (tag, raw): (u32, &[u8]),
        work: &Work<'_>,
        read: impl FnOnce() -> Option<Known>,
    ) -> Option<Arc<Known>> {
        if let Some(guess) = guess
            && let Some(known) = self.values.get(&Lookup::guessed(guess.get(), tag, raw))
        {
            work.knew_raw(raw.len());
            return Some(known);
        }
        let lookup = self.keys.lookup(tag, raw);
        let learn = |hash: u64| guess.into_iter().for_each(|guess| guess.set(hash));
        if let Some(known) = self.values.get(&lookup) {
            work.knew_raw(raw.len());
            learn(known.hash);
            return Some(known);
        }
        let known = read()?;
        let key = lookup.to_key();
        learn(key.hash);
        let known = Arc::new(Known { hash: key.hash, tag, length: raw.len(), ..known });
        self.counters.inserted.add(1);
        self.values.insert(key, Arc::clone(&known));
        Some(known)
    }
}

/// `body` from the first of `elements` on, which are parts of it in their order, and the bytes to the end of the
/// last.
fn span<'a>(body: &'a [u8], elements: &[&str]) -> Option<(&'a [u8], usize)> {
    let place = |part: &str| (part.as_ptr() as usize).checked_sub(body.as_ptr() as usize);
    let (first, last) = elements.first().zip(elements.last())?;
    let (from, to) = (place(first)?, place(last)? + last.len());
    Some((body.get(from..)?, to.checked_sub(from)?))
}
