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

    /// [`PrefixIndex::remove`] for `block` and those before it, `blocks` in all: an engine's larger block.
    pub fn remove_back(&mut self, slot: Slot, block: BlockHash, blocks: usize) {
        let mut next = Some(block);
        for _ in 0..blocks {
            let Some(block) = next else { return };
            next = self.before(block);
            self.remove(slot, block);
        }
    }

    /// The block before `block`; none where it starts a prompt, or is not known.
    fn before(&self, block: BlockHash) -> Option<BlockHash> {
        let (id, index) = self.find(block)?;
        let node = &self.slab[id];
        match index.checked_sub(1) {
            Some(before) => Some(node.run[before]),
            None => (!node.top).then_some(node.parent),
        }
    }
}
