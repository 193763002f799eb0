//! The randomness that the core takes as an argument.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers for threads to share.
pub(crate) struct Random(AtomicU64);

impl Random {
    pub(crate) fn new() -> Random {
        // RandomState is seeded by the operating system.
        Random(AtomicU64::new(RandomState::new().build_hasher().finish()))
    }

    /// SplitMix64: enough to break ties, and not for secrets.
    pub(crate) fn next(&self) -> u64 {
        let mut x = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }
}
