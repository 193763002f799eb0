//! Removal of single blocks, as engines evict them.

use super::PrefixIndex;
use super::node::Span;
use crate::block::BlockHash;
use crate::ids::Slot;

impl PrefixIndex {
    /// Notes that a worker does not hold `block`, confirmed or predicted; false where it did not anyway.
    ///
    /// The blocks after it stay, but count for no overlap until the hole is filled.
    pub fn remove(&mut self, slot: Slot, block: BlockHash) -> bool {
        if self.worker(slot).is_none() {
            return false;
        }
        let Some((id, index)) = self.find(block) else { return false };
        let old = self.span(id, slot.0);
        if index >= old.held {
            return false;
        }
        let (mut upper, mut lower) = (id, id);
        if index + 1 < old.held
            && let Some(parts) = self.split(id, index + 1, id)
        {
            (upper, lower) = parts;
        }
        // Without room for a split, what follows is forgotten too: it counts for nothing until refilled.
        let span = Span::new(old.confirmed.min(index), index, old.expires);
        self.put(upper, slot.0, span, false, lower);
        self.tidy(lower);
        true
    }
}
