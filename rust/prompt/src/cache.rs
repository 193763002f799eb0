//! The warm path: what was seen before is neither rendered, encoded nor hashed again.
//!
//! A message's raw bytes give its value, in which long texts are references; the template runs over the
//! references; the text is cut at tokens where that changes nothing; a piece that was seen has its ids; a
//! prefix that was seen has its block hashes. See `docs/adr/0006-seen-prompts.md`.

mod call;
mod functions;
mod names;
mod operations;
mod program;
mod run;
mod safe;
mod segments;
mod skeleton;
mod stats;
mod value;

use std::sync::Arc;

use minijinja::Value;
use quick_cache::Weighter;
use warmroute_core::block::{BlockHash, BlockHasher, Namespace};

use crate::encode::Encoder;
use crate::python::UNLIKE_PYTHON;
use crate::template::{ChatTemplate, ContentFormat, on_deep_stack};
use crate::{Body, Refused, chat};
use program::Program;
use run::Run;
use safe::{Place, SafeTokens};
use segments::{Bounded, Chains, ENTRY, Key, Keys, Segment, WeighSegment, bounded};
use skeleton::Skeleton;
pub use stats::CacheStats;
use stats::Counters;
use value::{List, Val};

/// Bytes that a cache takes where nothing else is said.
pub(crate) const DEFAULT_BYTES: usize = 256 << 20;

/// What was seen of one model's prompts.
#[derive(Debug)]
pub(crate) struct Cache {
    tokens: SafeTokens,
    /// The ids around a whole input, as segments.
    around: Option<[Arc<Segment>; 2]>,
    templates: Vec<Option<Runnable>>,
    keys: Keys,
    values: Bounded<Key, Val, WeighValue>,
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

#[derive(Clone, Debug)]
struct WeighValue;

impl Weighter<Key, Val> for WeighValue {
    fn weight(&self, key: &Key, value: &Val) -> u64 {
        // Once more for what calls gave for it, such as a tool's JSON.
        (2 * key.bytes.len() + value.weight() + ENTRY) as u64
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

/// Tags of keys; a template's number is added to that of messages and tools.
const INNER: u32 = 0;
const FIRST: u32 = 1;
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
        encoder: &Encoder,
    ) -> Option<Seen> {
        let Some(runnable) = self.templates.get(number)?.as_ref() else {
            self.counters.template.add(1);
            return None;
        };
        let seen = self
            .run(body, runnable, (number, template), format, named_tokens)
            .and_then(|skeleton| self.encode(&skeleton, body.add_special_tokens(), encoder));
        match &seen {
            Some(_) => self.counters.run.add(1),
            None => self.counters.request.add(1),
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
    ) -> Option<Skeleton<'c>> {
        let settings = chat::settings(body).ok()?;
        let tag = u32::try_from(number).ok()?;
        let mut messages = Vec::new();
        for raw in body.message_list().filter(|list| list.len() <= chat::MAX_ELEMENTS)? {
            let value = self.value(MESSAGES + tag, raw, || chat::message(raw, format))?;
            // These change other messages.
            if !template.knows_developer() && has_role(&value, "developer") {
                return None;
            }
            messages.push(value);
        }
        if messages.is_empty() {
            return None;
        }
        let tools = match body.tools() {
            Some(raw) => self.value(TOOLS + tag, raw, || chat::tools(raw))?,
            None => Val::None,
        };
        let out = Skeleton::new(&runnable.program, &runnable.places);
        let mut run = Run::new(&runnable.program, template.environment(), out);
        for (name, token) in named_tokens {
            run.set_global(name, || Val::of(&Value::from(token.as_str()), false));
        }
        for (name, value) in settings {
            run.set_global(&name, || Val::of(&value, false));
        }
        run.set_global("messages", || List::of(messages, false));
        run.set_global("tools", || tools);
        run.finish().ok()
    }

    /// What `read` makes of `raw`, or made of it before.
    fn value(&self, tag: u32, raw: &str, read: impl FnOnce() -> Result<Value, Refused>) -> Option<Val> {
        let lookup = self.keys.lookup(tag, raw.as_bytes());
        if let Some(value) = self.values.get(&lookup) {
            self.counters.value_hits.add(raw.len());
            return Some(value);
        }
        self.counters.value_misses.add(raw.len());
        let value = Val::of(&read().ok()?, true);
        self.counters.inserted.add(1);
        self.values.insert(lookup.to_key(), value.clone());
        Some(value)
    }

    /// The ids of `text`, piece by piece.
    pub(crate) fn text(self: &Arc<Cache>, text: &str, special: bool, encoder: &Encoder) -> Option<Seen> {
        self.encode(&Skeleton::of(text, self.tokens.places(text)), special, encoder)
    }

    fn encode(self: &Arc<Cache>, skeleton: &Skeleton<'_>, special: bool, encoder: &Encoder) -> Option<Seen> {
        let pieces = skeleton.pieces();
        let mut segments = Vec::with_capacity(pieces.len() + 2);
        let around = if special { Some(self.around.as_ref()?) } else { None };
        segments.extend(around.map(|[before, _]| Arc::clone(before)));
        for piece in pieces {
            let lookup = self.keys.lookup(if piece.begins.is_some() { INNER } else { FIRST }, piece.key);
            if let Some(segment) = self.segments.get(&lookup) {
                self.counters.text_hits.add(piece.length);
                segments.push(segment);
                continue;
            }
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
            segments.push(segment);
        }
        segments.extend(around.map(|[_, after]| Arc::clone(after)));
        Some(Seen { cache: Arc::clone(self), segments })
    }

    /// What happened so far, and how much is held.
    pub(crate) fn stats(&self) -> CacheStats {
        let held = self.values.len() + self.segments.len();
        let bytes = self.values.weight() + self.segments.weight() + self.chains.bytes();
        self.counters.read(bytes, held as u64)
    }
}

fn has_role(message: &Val, role: &str) -> bool {
    let Val::Map(message) = message else { return false };
    matches!(message.get("role"), Some(Val::Str(value::Str::Short(found))) if **found == *role)
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
