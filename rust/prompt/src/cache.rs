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
mod messages;
mod names;
mod operations;
mod pieces;
mod program;
mod run;
mod safe;
mod segments;
mod skeleton;
mod stats;
mod stop;
mod trace;
mod value;

use std::sync::Arc;

use minijinja::Value;

use crate::encode::Encoder;
use crate::template::{ChatTemplate, ContentFormat, on_deep_stack};
use crate::work::Work;
use crate::{Body, chat};
use known::{Guesses, Known, WeighValue};
pub(crate) use messages::Passed;
use messages::{FIRST_TOOLS, Reading};
pub(crate) use pieces::Seen;
use program::Program;
use run::Run;
use safe::{Place, SafeTokens};
use segments::{Bounded, Chains, Key, Keys, Segment, WeighSegment, bounded};
use skeleton::Skeleton;
pub use stats::CacheStats;
use stats::Counters;
use value::Val;

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

    /// What happened so far, and how much is held.
    pub(crate) fn stats(&self) -> CacheStats {
        let held = self.values.len() + self.segments.len();
        let bytes = self.values.weight() + self.segments.weight() + self.chains.bytes();
        self.counters.read(bytes, held as u64)
    }
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
