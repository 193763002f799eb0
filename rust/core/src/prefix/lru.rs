//! The order in which nodes were last touched.
//!
//! Paths are touched from their deepest node up, so a parent is newer than its children and the oldest
//! node is a leaf.

use super::PrefixIndex;
use super::node::NIL;

impl PrefixIndex {
    /// Makes `id` the newest.
    pub(super) fn touch(&mut self, id: u32) {
        self.slab[id].touched = self.now;
        if self.newest != id {
            self.lru_unlink(id);
            self.lru_push(id);
        }
    }

    /// Touches `deepest` and everything above it.
    pub(super) fn touch_path(&mut self, deepest: u32) {
        let mut next = Some(deepest);
        while let Some(id) = next {
            self.touch(id);
            next = self.parent_of(id);
        }
    }

    /// Links `id`, which is in no list, as the newest.
    pub(super) fn lru_push(&mut self, id: u32) {
        self.lru_link(self.newest, id, NIL);
    }

    /// Links `id`, which is in no list, right before `newer`.
    pub(super) fn lru_insert_before(&mut self, newer: u32, id: u32) {
        self.lru_link(self.slab[newer].older, id, newer);
    }

    /// Links `id`, which is in no list, right after `older`.
    pub(super) fn lru_insert_after(&mut self, older: u32, id: u32) {
        self.lru_link(older, id, self.slab[older].newer);
    }

    /// Takes `id` out of the list.
    pub(super) fn lru_unlink(&mut self, id: u32) {
        let (older, newer) = (self.slab[id].older, self.slab[id].newer);
        self.set_newer(older, newer);
        self.set_older(newer, older);
    }

    fn lru_link(&mut self, older: u32, id: u32, newer: u32) {
        let node = &mut self.slab[id];
        (node.older, node.newer) = (older, newer);
        self.set_newer(older, id);
        self.set_older(newer, id);
    }

    /// Says what comes after `id`, or which is the oldest.
    fn set_newer(&mut self, id: u32, newer: u32) {
        match id {
            NIL => self.oldest = newer,
            id => self.slab[id].newer = newer,
        }
    }

    /// Says what comes before `id`, or which is the newest.
    fn set_older(&mut self, id: u32, older: u32) {
        match id {
            NIL => self.newest = older,
            id => self.slab[id].older = older,
        }
    }
}
