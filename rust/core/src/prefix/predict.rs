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
    /// the worker's capacity: its least recently touched predictions make room, and of a longer prompt the
    /// last blocks do. Nothing happens for an unknown worker, nor where `expires` has come.
    pub fn predict(&mut self, slot: Slot, blocks: &[BlockHash], now: Time, expires: Time) {
        let Some(capacity) = self.worker(slot).map(|worker| worker.capacity) else { return };
        if expires <= now {
            return;
        }
        self.now = self.now.max(now);
        let reach = self.descend(Reach::ROOT, blocks);
        // More new blocks than the capacity would be dropped again at once, the last ones first.
        let room = capacity.map_or(blocks.len(), |capacity| reach.depth + capacity as usize);
        let reach = self.grow(reach, &blocks[..room.min(blocks.len())]);
        let deepest = self.mark(reach, slot.0, Mark::Predicted(expires));
        self.finish(deepest);
        self.enforce_capacity(slot.0);
    }
}
