//! Trimming, pruning and merging what a change left behind.

use super::PrefixIndex;
use super::node::NIL;
use super::table::{Place, WARM};
use crate::block::BlockHash;

impl PrefixIndex {
    /// Gives the tree around `id` its smallest shape: no blocks at the end of a leaf that nobody holds, no
    /// leaf that nobody holds, no only child apart that `id` could have in itself.
    ///
    /// Gives the node that has `id`'s blocks then, or else the nearest one above; none where none is left.
    pub(super) fn tidy(&mut self, id: u32) -> Option<u32> {
        let mut id = self.prune(id, NIL)?;
        if self.slab[id].children == 1
            && let Some((child, _)) = self.find(BlockHash(self.slab[id].child_xor))
            && self.mergeable(id, child)
        {
            id = self.merge(id, child);
        }
        Some(id)
    }

    /// Tidies and touches `deepest` and everything above it; nothing where it is [`NIL`].
    pub(super) fn finish(&mut self, deepest: u32) {
        let mut next = (deepest != NIL).then_some(deepest);
        while let Some(id) = next.and_then(|id| self.tidy(id)) {
            self.touch(id);
            next = self.parent_of(id);
        }
    }

    /// Trims a leaf to what is held, and drops it and what it alone kept where nothing is.
    ///
    /// `guard` stays as it is. Gives the node that remains of `id`, or the nearest one above.
    pub(super) fn prune(&mut self, mut id: u32, guard: u32) -> Option<u32> {
        while id != guard && self.slab[id].children == 0 {
            let longest = self.slab[id].longest();
            if longest > 0 {
                self.trim(id, longest);
                break;
            }
            let parent = self.parent_of(id);
            self.free(id);
            id = parent?;
        }
        Some(id)
    }

    /// Drops a leaf that has no holders.
    pub(super) fn free(&mut self, id: u32) {
        let first = self.slab[id].run[0];
        self.detach(id, first);
        self.trim(id, 0);
        self.discard(id);
    }

    /// Drops a node that nothing but the list of nodes names.
    pub(super) fn discard(&mut self, id: u32) {
        self.lru_unlink(id);
        let node = self.slab.remove(id);
        self.heap -= node.heap_bytes();
    }

    /// Cuts the run of a leaf to `len` blocks.
    fn trim(&mut self, id: u32, len: usize) {
        let node = &mut self.slab[id];
        let before = node.heap_bytes();
        while node.run.len() > len {
            let from = len.max(node.run.len().saturating_sub(WARM));
            self.table.warm(&node.run[from..]);
            while node.run.len() > from
                && let Some(hash) = node.run.pop()
            {
                self.table.remove(hash, Place { node: id, offset: node.offset(node.run.len()) });
            }
        }
        if node.run.capacity() > 2 * node.run.len() {
            node.run.shrink_to_fit();
        }
        self.heap = self.heap + node.heap_bytes() - before;
    }
}
