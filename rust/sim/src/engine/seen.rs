//! Which blocks were computed before.

use hashbrown::HashSet;

/// A bounded memory of block hashes: it remembers at least the last half of its capacity.
///
/// Two generations: when the newer is full the older one is forgotten. A worker that runs for weeks keeps
/// a flat memory, and calls a block new that it computed millions of blocks ago.
#[derive(Debug)]
pub(super) struct Seen {
    half: usize,
    newer: HashSet<u64>,
    older: HashSet<u64>,
}

impl Seen {
    /// A memory of at most `capacity` hashes.
    pub(super) fn new(capacity: usize) -> Seen {
        Seen { half: (capacity / 2).max(1), newer: HashSet::new(), older: HashSet::new() }
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.newer.contains(&hash) || self.older.contains(&hash)
    }

    pub(super) fn insert(&mut self, hash: u64) {
        if self.newer.len() == self.half && !self.newer.contains(&hash) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_last_half_and_stays_within_its_capacity() {
        let mut seen = Seen::new(8);
        for hash in 0..100 {
            seen.insert(hash);
            assert!((hash.saturating_sub(3)..=hash).all(|recent| seen.contains(recent)));
            assert!(seen.newer.len() + seen.older.len() <= 8);
        }
        assert!(!seen.contains(0));
    }
}
