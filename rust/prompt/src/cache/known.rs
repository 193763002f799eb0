//! Messages and tools that were read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::Value;
use quick_cache::Weighter;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::segments::{ENTRY, Key};
use super::trace::Traces;
use super::value::{Map, Str, Val};

/// What was read of messages in a row, or of tools.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) hash: u64,
    /// What it was read as.
    pub(super) tag: u32,
    /// Bytes of its JSON.
    pub(super) length: usize,
    /// The messages; of tools there are none.
    pub(super) messages: Arc<[Map]>,
    /// The tools.
    pub(super) tools: Val,
    /// Whether there is a developer's message among them.
    pub(super) has_developer: bool,
    /// What it takes beside its bytes.
    pub(super) weight: usize,
    /// What loops did with the messages.
    pub(super) traces: Traces,
}

/// What may come next: the hashes of what came before, by what precedes it and by its first bytes. A guess is
/// looked up before anything is hashed, and an entry that is found is compared in full.
#[derive(Debug)]
pub(super) struct Guesses {
    places: Box<[AtomicU64]>,
    seed: u64,
}

/// Conversations have a place for each eight messages; two that share one are hashed.
const PLACES: usize = 1 << 16;

/// First bytes that tell messages apart, mostly.
const FIRST_BYTES: usize = 128;

impl Guesses {
    pub(super) fn new(seed: u64) -> Guesses {
        Guesses { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(), seed }
    }

    /// The place of what begins `ahead`, behind what has the hash `before`.
    pub(super) fn place(&self, before: u64, ahead: &[u8]) -> Guess<'_> {
        let first = ahead.get(..FIRST_BYTES).unwrap_or(ahead);
        let number = xxh3_64_with_seed(first, self.seed ^ before);
        Guess(&self.places[number as usize % PLACES])
    }
}

/// A place of a guess.
#[derive(Clone, Copy)]
pub(super) struct Guess<'g>(&'g AtomicU64);

impl Guess<'_> {
    pub(super) fn get(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Keeps a guess; chats that repeat write nothing that other threads read.
    pub(super) fn set(self, hash: u64) {
        if self.get() != hash {
            self.0.store(hash, Ordering::Relaxed);
        }
    }
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
            tag: 0,
            length: 0,
            weight: messages.len() * TRACES,
            messages,
            tools: Val::None,
            has_developer,
            traces: Traces::default(),
        }
    }
}

/// What is kept of loops for each message, in bytes.
const TRACES: usize = 1024;

fn has_role(message: &Map, role: &str) -> bool {
    matches!(message.get("role"), Some(Val::Str(Str::Short(found))) if **found == *role)
}
