//! Predictions: what a worker will hold once it has served what was sent to it.

use super::PrefixIndex;
use super::mark::Mark;
use super::walk::Reach;
use crate::block::BlockHash;
use crate::ids::Slot;
use crate::time::Time;

impl PrefixIndex {
    /// Assumes that a worker holds `blocks`, a whole prompt from its start, until `expires`.
    ///
    /// Confirmed blocks stay so; predicted ones live at least until `expires`. No more is predicted than
    /// the worker's capacity: a longer prompt is cut, and the worker's least recently touched predictions
    /// make room. Nothing happens for an unknown worker, nor where `expires` has come.
    pub fn predict(&mut self, slot: Slot, blocks: &[BlockHash], now: Time, expires: Time) {
        let Some(capacity) = self.worker(slot).map(|worker| worker.capacity) else { return };
        if expires <= now {
            return;
        }
        self.now = self.now.max(now);
        let mut reach = self.descend(Reach::ROOT, blocks);
        let mut blocks = blocks;
        if let Some(capacity) = capacity.map(|capacity| capacity as usize)
            && capacity < blocks.len()
        {
            (reach, blocks) = self.cut(reach, blocks, slot.0, capacity);
        }
        if blocks.is_empty() {
            return;
        }
        let reach = self.grow(reach, blocks);
        let deepest = self.mark(reach, slot.0, Mark::Predicted(expires));
        self.finish(deepest);
        self.enforce_capacity(slot.0);
    }

    /// Cuts a prompt, and its path so far, so that it has no more than `capacity` unconfirmed blocks.
    fn cut<'a>(
        &self,
        reach: Reach,
        blocks: &'a [BlockHash],
        worker: u32,
        capacity: usize,
    ) -> (Reach, &'a [BlockHash]) {
        let unknown = blocks.len() - reach.depth;
        let unconfirmed = unknown + self.unconfirmed(reach, worker);
        let mut excess = unconfirmed.saturating_sub(capacity);
        if excess <= unknown {
            return (reach, &blocks[..blocks.len() - excess]);
        }
        excess -= unknown;
        let mut next = (reach.depth > 0).then_some(reach);
        while let Some(reach) = next {
            let cut = excess.min(reach.within - self.confirmed_within(reach, worker));
            excess -= cut;
            let (within, depth) = (reach.within - cut, reach.depth - cut);
            if excess == 0 && within > 0 {
                return (Reach { within, depth, ..reach }, &blocks[..depth]);
            }
            next = self.above(reach);
        }
        (Reach::ROOT, &[])
    }

    /// Blocks of a path that `worker` has not confirmed.
    fn unconfirmed(&self, reach: Reach, worker: u32) -> usize {
        let path = std::iter::successors((reach.depth > 0).then_some(reach), |&reach| self.above(reach));
        path.map(|reach| reach.within - self.confirmed_within(reach, worker)).sum()
    }

    /// Blocks of the last node of a path that are on it and confirmed for `worker`.
    fn confirmed_within(&self, reach: Reach, worker: u32) -> usize {
        self.span(reach.at, worker).confirmed.min(reach.within)
    }

    /// The end of the node above the one that a path ends in.
    fn above(&self, reach: Reach) -> Option<Reach> {
        let Reach { at, within, depth } = reach;
        let parent = self.parent_of(at)?;
        Some(Reach { at: parent, within: self.slab[parent].run.len(), depth: depth - within })
    }
}
