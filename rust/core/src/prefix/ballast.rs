//! Blocks in a worker's cache that no prompt names: what its replies filled.
//!
//! Their tokens are not known, so they are in no run; they take room all the same, and an engine evicts them in the
//! same order as all others.

use super::PrefixIndex;
use crate::ids::Slot;
use crate::time::Time;

/// Entries of one worker. Where there are more, neighbours are joined.
const ENTRIES: usize = 16;

/// How many such blocks a worker has, least recently used first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ballast {
    entries: [(Time, u32); ENTRIES],
    len: usize,
    blocks: usize,
}

impl Ballast {
    /// All blocks.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// When the oldest entry expires.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.entries[..self.len].first().map(|(expires, _)| *expires)
    }

    fn push(&mut self, expires: Time, blocks: u32) {
        if self.len == ENTRIES {
            // The two that have the fewest blocks together become one, as old as the newer of them.
            let pairs = self.entries.windows(2).map(|pair| u64::from(pair[0].1) + u64::from(pair[1].1));
            let at = pairs.enumerate().min_by_key(|(_, blocks)| *blocks).map_or(0, |(at, _)| at);
            self.entries[at + 1].1 += self.entries[at].1;
            self.entries.copy_within(at + 1.., at);
            self.len -= 1;
        }
        self.entries[self.len] = (expires, blocks);
        self.len += 1;
        self.blocks += blocks as usize;
    }

    /// Takes up to `wanted` blocks from the oldest entry; gives how many.
    pub(super) fn take(&mut self, wanted: usize) -> usize {
        if self.len == 0 {
            return 0;
        }
        let oldest = &mut self.entries[0].1;
        let taken = wanted.min(*oldest as usize);
        *oldest -= taken as u32;
        self.blocks -= taken;
        if self.entries[0].1 == 0 {
            self.entries.copy_within(1.., 0);
            self.len -= 1;
        }
        taken
    }
}

impl PrefixIndex {
    /// Notes that `blocks` more blocks of the worker hold what no prompt names; they count for its capacity as if
    /// they were predicted until `expires`. Nothing happens for a worker without a capacity.
    pub fn occupy(&mut self, slot: Slot, blocks: u32, expires: Time) {
        let Some(worker) = self.worker_mut(slot) else { return };
        let blocks = blocks.min(worker.capacity.unwrap_or(0));
        if blocks > 0 {
            worker.ballast.push(expires, blocks);
            self.enforce_capacity(slot.0);
        }
    }

    /// Blocks that hold what no prompt names.
    pub fn occupied(&self, slot: Slot) -> u64 {
        self.worker(slot).map_or(0, |worker| worker.ballast.blocks() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_and_none_are_lost() {
        let mut ballast = Ballast::default();
        for time in 0..100 {
            ballast.push(Time::from_nanos(time), 3);
        }
        assert_eq!((ballast.blocks(), ballast.len), (300, ENTRIES));
        let mut last = Time::ZERO;
        let mut taken = 0;
        while let Some(oldest) = ballast.oldest() {
            assert!(oldest >= last);
            last = oldest;
            taken += ballast.take(2);
        }
        assert_eq!((taken, ballast.blocks(), ballast.take(1)), (300, 0, 0));
    }
}
