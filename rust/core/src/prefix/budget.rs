//! The budget of bytes: room is made before it is taken.

use super::PrefixIndex;
use super::node::{NIL, Span};

impl PrefixIndex {
    /// Makes room for `needed` bytes by evicting the least recently touched leaves.
    ///
    /// `guard` is the deepest node of the path that is being changed, which stays with all above it, or
    /// [`NIL`]. Gives false where only that path is left and there is still no room. No node is merged here,
    /// so that the caller's nodes keep their numbers; [`PrefixIndex::expire`] merges what is left apart.
    ///
    /// `needed` is asked again after each eviction: an eviction may free the very place that was to be
    /// used, or make room in a table that then need not grow.
    pub(super) fn fit(&mut self, guard: u32, needed: impl Fn(&PrefixIndex) -> usize) -> bool {
        if self.bytes() + needed(self) <= self.max_bytes {
            return true;
        }
        if guard != NIL {
            self.touch_path(guard);
        }
        while self.bytes() + needed(self) > self.max_bytes {
            if !self.evict(guard) {
                return false;
            }
        }
        true
    }

    /// Bytes left in the budget.
    pub(super) fn room(&self) -> usize {
        self.max_bytes.saturating_sub(self.bytes())
    }

    /// Drops the oldest leaf, and the nodes above it that only it kept; false where the path is all there is.
    fn evict(&mut self, guard: u32) -> bool {
        let leaf = self.oldest;
        if leaf == NIL || leaf == guard {
            return false;
        }
        debug_assert_eq!(self.slab[leaf].children, 0, "a parent is newer than its children");
        self.counters.evicted_blocks += self.slab[leaf].run.len() as u64;
        let parent = self.parent_of(leaf);
        while let Some(worker) = self.slab[leaf].holders.last().map(|holder| holder.worker) {
            self.put(leaf, worker, Span::default(), false, guard);
        }
        self.free(leaf);
        if let Some(parent) = parent {
            self.prune(parent, guard);
        }
        true
    }
}
