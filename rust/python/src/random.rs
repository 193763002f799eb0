//! The randomness that the core takes as an argument.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers for threads to share.
///
/// They tell nothing of one another: whoever is given one as the number of a reservation guesses no other's.
pub(crate) struct Random {
    /// Seeded by the operating system.
    keys: RandomState,
    count: AtomicU64,
}

impl Random {
    pub(crate) fn new() -> Random {
        Random { keys: RandomState::new(), count: AtomicU64::new(0) }
    }

    /// The next one: a keyed hash of a count.
    pub(crate) fn next(&self) -> u64 {
        self.keys.hash_one(self.count.fetch_add(1, Ordering::Relaxed))
    }
}
