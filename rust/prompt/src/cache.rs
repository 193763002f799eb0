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
use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::Value;
use warmroute_core::block::{BlockHash, BlockHasher, Namespace};

use crate::encode::Encoder;
use crate::python::UNLIKE_PYTHON;
use crate::template::{ChatTemplate, ContentFormat, on_deep_stack};
use crate::work::Work;
use crate::{Body, Refused, chat};
use known::{Known, WeighValue};
use program::Program;
use run::Run;
use safe::{Place, SafeTokens};
use segments::{Bounded, Chains, Key, Keys, Lookup, Segment, WeighSegment, bounded};
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
    /// The hash of what the last chat began with.
    first: AtomicU64,
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

/// Keeps a guess; chats that repeat write nothing that other threads read.
fn guess(place: &AtomicU64, hash: u64) {
    if place.load(Ordering::Relaxed) != hash {
        place.store(hash, Ordering::Relaxed);
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

/// So many pieces from the start of a text, and then from there, are also kept as one: what is far behind in a
/// long conversation is found by one look-up and not by one a message.
const GROUPS_OF: [usize; 2] = [16, 4];

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
        let templates = templates.map(|template| Runnable::new(template, &tokens)).collect();
        Some(Arc::new(Cache {
            around,
            tokens,
            templates,
            keys: Keys::new(),
            values: bounded(bytes / 2, 4096, WeighValue),
            first: AtomicU64::new(0),
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

    fn run<'c>(
        &self,
        body: &Body<'_>,
        runnable: &'c Runnable,
        (number, template): (usize, &'c ChatTemplate),
        format: ContentFormat,
        named_tokens: &[(String, String)],
        work: &Work<'_>,
    ) -> Option<Skeleton<'c>> {
        let settings = chat::settings(body).ok()?;
        let tag = u32::try_from(number).ok()?;
        let list = body.message_list().filter(|list| list.len() <= chat::MAX_ELEMENTS)?;
        work.look_up(list.len())?;
        let mut last = None;
        let tools = match body.tools() {
            Some(raw) => {
                let read = || {
                    let value = self.counted(raw, work, || chat::tools(raw))?;
                    Some(Known::tools(value))
                };
                let known = self.known(&self.first, (TOOLS + tag, raw), work, read)?;
                last.insert(known).tools.clone()
            }
            None => Val::None,
        };
        let reading = Reading { tag: MESSAGES + tag, format, work };
        let (mut messages, mut groups, mut rest) = (Vec::with_capacity(list.len()), Vec::new(), list);
        while !rest.is_empty() {
            // The first one, which many chats may share, is a group of its own.
            let size = if messages.is_empty() { 1 } else { MESSAGES_IN_GROUP };
            let (elements, behind) = rest.split_at_checked(size).unwrap_or_else(|| rest.split_at(1));
            rest = behind;
            let next = last.as_ref().map_or(&self.first, |last| &last.next);
            let known = self.messages(next, &reading, body.messages().ok()?, elements)?;
            // These change other messages.
            if !template.knows_developer() && known.has_developer {
                return None;
            }
            if elements.len() == size {
                groups.push((messages.len(), Arc::clone(&known)));
            }
            let maps = &known.messages;
            messages.extend((0..maps.len()).map(|at| Val::Map(MapRef { maps: Arc::clone(maps), at })));
            last = Some(known);
        }
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

    /// What is known of `elements`, which stand in a row in `whole`; `next` is the guess.
    fn messages(
        &self,
        next: &AtomicU64,
        reading: &Reading<'_>,
        whole: &str,
        elements: &[&str],
    ) -> Option<Arc<Known>> {
        match elements {
            [raw] => self.message(next, reading, raw),
            _ => {
                let raw = span(whole, elements)?;
                self.known(next, (reading.tag, raw), reading.work, || self.joined(reading, elements))
            }
        }
    }

    fn message(&self, next: &AtomicU64, reading: &Reading<'_>, raw: &str) -> Option<Arc<Known>> {
        let Reading { tag, format, work } = *reading;
        self.known(next, (tag, raw), work, || {
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
        let (mut last, mut parts) = (None::<Arc<Known>>, Vec::with_capacity(elements.len()));
        for raw in elements {
            let first = AtomicU64::new(0);
            let next = last.as_ref().map_or(&first, |last| &last.next);
            let known = self.message(next, reading, raw)?;
            parts.push(Arc::clone(&known));
            last = Some(known);
        }
        Some(Known::of(parts.iter().flat_map(|part| part.messages.iter().map(Map::copy)).collect()))
    }

    /// What `read` makes of `raw`, or made of it before; `next` is the guess.
    fn known(
        &self,
        next: &AtomicU64,
        (tag, raw): (u32, &str),
        work: &Work<'_>,
        read: impl FnOnce() -> Option<Known>,
    ) -> Option<Arc<Known>> {
        let guessed = Lookup::guessed(next.load(Ordering::Relaxed), tag, raw.as_bytes());
        if let Some(known) = self.values.get(&guessed) {
            work.knew_raw(raw.len());
            return Some(known);
        }
        let lookup = self.keys.lookup(tag, raw.as_bytes());
        if let Some(known) = self.values.get(&lookup) {
            work.knew_raw(raw.len());
            guess(next, known.hash);
            return Some(known);
        }
        let known = read()?;
        let key = lookup.to_key();
        let known = Arc::new(Known { hash: key.hash, room: 2 * raw.len(), ..known });
        guess(next, key.hash);
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
            let group = GROUPS_OF.iter().find_map(|size| rest.split_at_checked(*size));
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

/// The part of `whole` from the first of `elements`, which are parts of it in their order, to the last.
fn span<'a>(whole: &'a str, elements: &[&'a str]) -> Option<&'a str> {
    let place = |part: &str| (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize);
    let (first, last) = elements.first().zip(elements.last())?;
    whole.get(place(first)?..place(last)? + last.len())
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
