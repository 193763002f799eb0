//! Messages and tools that were read.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use minijinja::Value;
use quick_cache::Weighter;

use super::segments::{ENTRY, Key};
use super::trace::Traces;
use super::value::{Map, Str, Val};

/// What was read of messages in a row, or of tools.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) hash: u64,
    /// The messages; of tools there are none.
    pub(super) messages: Arc<[Map]>,
    /// The tools.
    pub(super) tools: Val,
    /// Whether there is a developer's message among them.
    pub(super) has_developer: bool,
    /// What it takes beside its bytes.
    pub(super) weight: usize,
    /// Bytes of text that a loop may write and that are kept.
    pub(super) room: usize,
    /// What loops did with the messages.
    pub(super) traces: Traces,
    /// The hash of what came next in the last chat, or any number: a guess is looked up before anything is
    /// hashed, and an entry that is found is compared in full.
    pub(super) next: AtomicU64,
}

#[derive(Clone, Debug)]
pub(super) struct WeighValue;

impl Weighter<Key, Arc<Known>> for WeighValue {
    fn weight(&self, key: &Key, known: &Arc<Known>) -> u64 {
        // Once more for what calls gave for it, such as a tool's JSON.
        (2 * key.bytes.len() + known.weight + ENTRY) as u64
    }
}

impl Known {
    pub(super) fn tools(value: Value) -> Known {
        let tools = Val::of(&value, true);
        Known { weight: tools.weight(), tools, ..Known::of(Arc::new([])) }
    }

    pub(super) fn message(value: Value) -> Option<Known> {
        let value = Val::of(&value, true);
        let Val::Map(message) = &value else { return None };
        Some(Known { weight: value.weight() + TRACES, ..Known::of(Arc::clone(&message.maps)) })
    }

    pub(super) fn of(messages: Arc<[Map]>) -> Known {
        let has_developer = messages.iter().any(|message| has_role(message, "developer"));
        Known {
            hash: 0,
            room: 0,
            weight: messages.len() * TRACES,
            messages,
            tools: Val::None,
            has_developer,
            traces: Traces::default(),
            next: AtomicU64::new(0),
        }
    }
}

/// What is kept of loops for each message, in bytes.
const TRACES: usize = 1024;

fn has_role(message: &Map, role: &str) -> bool {
    matches!(message.get("role"), Some(Val::Str(Str::Short(found))) if **found == *role)
}
