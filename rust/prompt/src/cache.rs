//! The warm path: what was seen before is neither rendered, encoded nor hashed again.
//!
//! A message's raw bytes give its value, in which long texts are references; the template runs over the
//! references; the text is cut at tokens where that changes nothing; a piece that was seen has its ids; a
//! prefix that was seen has its block hashes. See `docs/adr/0006-seen-prompts.md`.

mod call;
mod compile;
mod evaluate;
mod functions;
mod known;
mod names;
mod operations;
mod program;
mod run;
mod safe;
mod segments;
mod skeleton;
mod stats;
mod trace;
mod value;

use std::sync::Arc;

use minijinja::Value;
use warmroute_core::block::{BlockHash, BlockHasher, Namespace};

use crate::encode::Encoder;
use crate::python::UNLIKE_PYTHON;
use crate::template::{ChatTemplate, ContentFormat, on_deep_stack};
use crate::work::Work;
use crate::{Body, Refused, chat};
use known::{Guess, Guesses, Known, WeighValue};
use program::Program;
use run::{Groups, Run};
use safe::{Place, SafeTokens};
use segments::{Beginning, Bounded, Chains, Key, Keys, Lookup, Segment, WeighSegment, bounded};
use skeleton::{Piece, Skeleton};
pub use stats::CacheStats;
use stats::Counters;
use value::{Map, MapRef, Val};

/// Bytes that are kept of prompts that were seen, by each tokenizer, where nothing else is said.
pub const DEFAULT_BYTES: usize = 256 << 20;

/// What was seen of one model's prompts.
#[derive(Debug)]
pub(crate) struct Cache {
    tokens: SafeTokens,
    /// The ids around a whole input, as segments.
    around: Option<[Arc<Segment>; 2]>,
    templates: Vec<Option<Runnable>>,
    keys: Keys,
    values: Bounded<Key, Arc<Known>, WeighValue>,
    guesses: Guesses,
    segments: Bounded<Key, Arc<Segment>, WeighSegment>,
    chains: Chains,
    counters: Counters,
}

/// A template that runs over references.
#[derive(Debug)]
struct Runnable {
    program: Program,
    /// Safe tokens in each of its constants.
    places: Vec<Vec<Place>>,
}

/// How messages are read.
struct Reading<'r> {
    tag: u32,
    format: ContentFormat,
    work: &'r Work<'r>,
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

/// The ids of a prompt, segment by segment.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    cache: Arc<Cache>,
    segments: Vec<Arc<Segment>>,
}

impl Seen {
    /// The ids, packed.
    pub(crate) fn joined(&self) -> Vec<u8> {
        let mut joined = Vec::with_capacity(self.len() * 4);
        self.segments.iter().for_each(|segment| joined.extend_from_slice(&segment.ids));
        joined
    }

    /// The ids.
    pub(crate) fn ids(&self) -> Vec<u32> {
        let packed = self.segments.iter().flat_map(|segment| segment.ids.chunks_exact(4));
        packed.map(|id| id.try_into().map_or(0, u32::from_le_bytes)).collect()
    }

    /// How many ids there are.
    pub(crate) fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.ids.len() / 4).sum()
    }

    pub(crate) fn hash_into(&self, hasher: &BlockHasher, space: &Namespace<'_>, out: &mut Vec<BlockHash>) {
        self.cache.chains.hash_into(hasher, space, &self.segments, out);
    }
}

/// The messages of a group, which is the chat's first or not.
fn group_size(is_first: bool) -> usize {
    // The first one, which many chats may share, is a group of its own.
    if is_first { 1 } else { MESSAGES_IN_GROUP }
}

/// What stands for the hash of what precedes a chat's first message, and its tools.
const FIRST_MESSAGE: u64 = 0;
const FIRST_TOOLS: u64 = 1;

/// So many pieces from the start of a text, and then from there, are also kept as one: what is far behind in a
/// long conversation is found by one look-up and not by one a message.
///
/// Not where they are long: making one of them costs more than their look-ups.
const GROUPS_OF: [(usize, usize); 2] = [(16, 128 << 10), (4, 16 << 10)];

/// Messages that are known as one, from the second one of a chat on.
const MESSAGES_IN_GROUP: usize = 8;

/// Tags of keys; a template's number is added to that of messages and tools.
const INNER: u32 = 0;
const FIRST: u32 = 1;
const GROUPS: u32 = 2;
const MESSAGES: u32 = 1 << 16;
const TOOLS: u32 = 2 << 16;

impl Cache {
    /// A cache of `bytes`; `None` where no token of the tokenizer is a place to cut at.
    pub(crate) fn new<'t>(
        bytes: usize,
        definition: &serde_json::Value,
        encoder: &Encoder,
        templates: impl Iterator<Item = &'t ChatTemplate>,
    ) -> Option<Arc<Cache>> {
        let tokens = SafeTokens::of(definition, encoder)?;
        let around =
            tokens.around.as_ref().map(|(before, after)| [Segment::new(before), Segment::new(after)]);
        let keys = Keys::new();
        let templates = templates.map(|template| Runnable::new(template, &tokens)).collect();
        Some(Arc::new(Cache {
            around,
            tokens,
            templates,
            guesses: Guesses::new(keys.seed),
            keys,
            values: bounded(bytes / 2, 4096, WeighValue),
            segments: bounded(bytes / 8 * 3, 2048, WeighSegment),
            chains: Chains::new(bytes / 8),
            counters: Counters::default(),
        }))
    }

    /// The ids of the chat of `body` with the template of number `number`; `None` where the template or
    /// this request is one for minijinja.
    pub(crate) fn chat(
        self: &Arc<Cache>,
        body: &Body<'_>,
        (number, template): (usize, &ChatTemplate),
        format: ContentFormat,
        named_tokens: &[(String, String)],
        work: &Work<'_>,
    ) -> Option<Seen> {
        let Some(runnable) = self.templates.get(number)?.as_ref() else {
            if work.may_render(body) {
                self.counters.template.add(1);
            }
            return None;
        };
        let seen = self
            .run(body, runnable, (number, template), format, named_tokens, work)
            .and_then(|skeleton| self.encode(&skeleton, body.add_special_tokens(), work));
        match &seen {
            Some(_) => self.counters.run.add(1),
            None if work.may_render(body) => self.counters.request.add(1),
            None => {}
        }
        seen
    }

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

    fn run<'c>(
        self: &Arc<Cache>,
        body: &Body<'_>,
        runnable: &'c Runnable,
        (number, template): (usize, &'c ChatTemplate),
        format: ContentFormat,
        named_tokens: &[(String, String)],
        work: &Work<'_>,
    ) -> Option<Skeleton<'c>> {
        let settings = chat::settings(body).ok()?;
        let tag = u32::try_from(number).ok().filter(|number| *number < MESSAGES)?;
        let reading = Reading { tag: MESSAGES + tag, format, work };
        let (messages, groups) = self.messages(body, &reading)?;
        // These change other messages.
        if !template.knows_developer() && groups.iter().any(|(_, group)| group.has_developer) {
            return None;
        }
        let tools = match body.tools() {
            Some(raw) => {
                let read = || Some(Known::tools(self.counted(raw, work, || chat::tools(raw))?));
                let guess = self.guesses.place(FIRST_TOOLS, raw.as_bytes());
                self.known(Some(guess), (TOOLS + tag, raw.as_bytes()), work, read)?.tools.clone()
            }
            None => Val::None,
        };
        let out = Skeleton::new(&runnable.program, &runnable.places);
        let mut run = Run::new(&runnable.program, template.environment(), out, work.steps());
        for (name, token) in named_tokens {
            run.set_global(name, || Val::of(&Value::from(token.as_str()), false));
        }
        for (name, value) in settings {
            run.set_global(&name, || Val::of(&value, false));
        }
        run.set_messages(messages, groups);
        run.set_global("tools", || tools);
        run.finish().ok()
    }

    /// The messages of `body`, and the groups of them with the place of the first in each.
    fn messages(self: &Arc<Cache>, body: &Body<'_>, reading: &Reading<'_>) -> Option<(Vec<Val>, Groups)> {
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
    fn counted(
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
    fn known(
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

    /// The ids of `text`, piece by piece.
    pub(crate) fn text(self: &Arc<Cache>, text: &str, special: bool, work: &Work<'_>) -> Option<Seen> {
        self.encode(&Skeleton::of(text, self.tokens.places(text)), special, work)
    }

    fn encode(self: &Arc<Cache>, skeleton: &Skeleton<'_>, special: bool, work: &Work<'_>) -> Option<Seen> {
        let pieces = skeleton.pieces();
        let mut segments = Vec::with_capacity(pieces.len() + 2);
        let around = if special { Some(self.around.as_ref()?) } else { None };
        segments.extend(around.map(|[before, _]| Arc::clone(before)));
        let mut rest = &pieces[..];
        while let Some(first) = rest.first() {
            let group = GROUPS_OF.iter().find_map(|(size, bytes)| {
                let length = |pieces: &[Piece<'_>]| pieces.iter().map(|piece| piece.length).sum::<usize>();
                rest.split_at_checked(*size).filter(|(pieces, _)| length(pieces) <= *bytes)
            });
            segments.push(match group {
                Some((pieces, _)) => self.group(skeleton, pieces, work)?,
                None => self.piece(first, work)?,
            });
            rest = group.map_or(&rest[1..], |(_, rest)| rest);
        }
        segments.extend(around.map(|[_, after]| Arc::clone(after)));
        let (raw, text) = work.known();
        self.counters.value_hits.add(raw);
        self.counters.text_hits.add(text);
        Some(Seen { cache: Arc::clone(self), segments })
    }

    /// The ids of a full group of pieces.
    fn group(&self, skeleton: &Skeleton<'_>, pieces: &[Piece<'_>], work: &Work<'_>) -> Option<Arc<Segment>> {
        let tag = if pieces.first()?.begins.is_some() { INNER } else { FIRST };
        let lookup = self.keys.lookup(GROUPS | tag, skeleton.key_of(pieces));
        if let Some(segment) = self.segments.get(&lookup) {
            work.knew_text(pieces.iter().map(|piece| piece.length).sum());
            return Some(segment);
        }
        let parts = pieces.iter().map(|piece| self.piece(piece, work)).collect::<Option<Vec<_>>>()?;
        let segment = Segment::joined(&parts);
        self.counters.inserted.add(1);
        self.segments.insert(lookup.to_key(), Arc::clone(&segment));
        Some(segment)
    }

    /// The ids of a piece.
    fn piece(&self, piece: &Piece<'_>, work: &Work<'_>) -> Option<Arc<Segment>> {
        let lookup = self.keys.lookup(if piece.begins.is_some() { INNER } else { FIRST }, piece.key);
        if let Some(segment) = self.segments.get(&lookup) {
            work.knew_text(piece.length);
            return Some(segment);
        }
        let encoder = work.encoder(piece.length)?;
        self.counters.text_misses.add(piece.length);
        let text = piece.text()?;
        if text.contains(UNLIKE_PYTHON) {
            return None;
        }
        let ids = encoder.encode(&text, false).ok()?;
        let ids = match piece.begins {
            None => &ids[..],
            // The token that the piece begins with belongs to the one before.
            Some(id) => ids.split_first().filter(|(first, _)| **first == id).map(|(_, rest)| rest)?,
        };
        let segment = Segment::new(ids);
        self.counters.inserted.add(1);
        self.segments.insert(lookup.to_key(), Arc::clone(&segment));
        Some(segment)
    }

    /// What happened so far, and how much is held.
    pub(crate) fn stats(&self) -> CacheStats {
        let held = self.values.len() + self.segments.len();
        let bytes = self.values.weight() + self.segments.weight() + self.chains.bytes();
        self.counters.read(bytes, held as u64)
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

impl Runnable {
    fn new(template: &ChatTemplate, tokens: &SafeTokens) -> Option<Runnable> {
        let source = template.source()?;
        let compile = || Program::compile(&source, template.environment());
        let program = on_deep_stack(&source, compile).ok()?.ok()?;
        let places = program.constants.iter().map(|text| tokens.places(text).collect()).collect();
        Some(Runnable { program, places })
    }
}
