//! Counters of the cache.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a cache of prompts did since it was made, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Chats rendered over references to texts.
    pub chats: u64,
    /// Chats rendered in full because the template uses what is only known to minijinja.
    pub full_by_template: u64,
    /// Chats rendered in full because of something in the request.
    pub full_by_request: u64,
    /// Bytes of messages and tools, as sent, that were known and not read again.
    pub known_raw_bytes: u64,
    /// Bytes of messages and tools that were read.
    pub read_raw_bytes: u64,
    /// Bytes of text whose ids were known.
    pub known_text_bytes: u64,
    /// Bytes of text that were encoded.
    pub encoded_text_bytes: u64,
    /// Bytes held.
    pub bytes: u64,
    /// Messages, lists of tools and pieces of text that are no longer held.
    pub evicted: u64,
}

impl CacheStats {
    /// Each count with its name.
    pub fn counts(&self) -> [(&'static str, u64); 9] {
        [
            ("chats", self.chats),
            ("full_by_template", self.full_by_template),
            ("full_by_request", self.full_by_request),
            ("known_raw_bytes", self.known_raw_bytes),
            ("read_raw_bytes", self.read_raw_bytes),
            ("known_text_bytes", self.known_text_bytes),
            ("encoded_text_bytes", self.encoded_text_bytes),
            ("bytes", self.bytes),
            ("evicted", self.evicted),
        ]
    }

    /// The sums of both.
    #[must_use]
    pub fn plus(self, other: CacheStats) -> CacheStats {
        CacheStats {
            chats: self.chats + other.chats,
            full_by_template: self.full_by_template + other.full_by_template,
            full_by_request: self.full_by_request + other.full_by_request,
            known_raw_bytes: self.known_raw_bytes + other.known_raw_bytes,
            read_raw_bytes: self.read_raw_bytes + other.read_raw_bytes,
            known_text_bytes: self.known_text_bytes + other.known_text_bytes,
            encoded_text_bytes: self.encoded_text_bytes + other.encoded_text_bytes,
            bytes: self.bytes + other.bytes,
            evicted: self.evicted + other.evicted,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, amount: usize) {
        self.0.fetch_add(amount as u64, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) run: Counter,
    pub(super) template: Counter,
    pub(super) request: Counter,
    pub(super) value_hits: Counter,
    pub(super) value_misses: Counter,
    pub(super) text_hits: Counter,
    pub(super) text_misses: Counter,
    pub(super) inserted: Counter,
}

impl Counters {
    pub(super) fn read(&self, bytes: u64, held: u64) -> CacheStats {
        CacheStats {
            chats: self.run.read(),
            full_by_template: self.template.read(),
            full_by_request: self.request.read(),
            known_raw_bytes: self.value_hits.read(),
            read_raw_bytes: self.value_misses.read(),
            known_text_bytes: self.text_hits.read(),
            encoded_text_bytes: self.text_misses.read(),
            bytes,
            evicted: self.inserted.read().saturating_sub(held),
        }
    }
}
