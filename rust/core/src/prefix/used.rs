//! The order in which a worker's confirmed blocks were used last, and what it will evict of them first.
//!
//! An engine takes the block that was used least recently, the last one of a prompt before those before it.
//! Events tell what has been evicted; what will be, until the requests that were sent have begun, follows from
//! this order.

use super::PrefixIndex;
use super::node::{List, NIL};
use super::walk::{Reach, common};
use crate::block::BlockHash;
use crate::ids::Slot;
use crate::time::Time;

/// Entries that are looked at for what goes next. Beyond them nothing is taken to go.
const ENTRIES: usize = 256;

impl PrefixIndex {
    /// Notes that the worker has used what is confirmed of the prompt that ends with `block`, and of its reply, which
    /// is up to `reply` blocks long: those that follow, as far as that is clear.
    pub fn used(&mut self, slot: Slot, block: BlockHash, reply: usize) {
        if self.worker(slot).is_none() {
            return;
        }
        let Some((mut id, index)) = self.find(block) else { return };
        let mut to = (index + 1).saturating_add(reply);
        while to > self.slab[id].run.len()
            && self.slab[id].children == 1
            && let Some((child, 0)) = self.find(BlockHash(self.slab[id].child_xor))
            && self.span(child, slot.0).confirmed > 0
        {
            to -= self.slab[id].run.len();
            id = child;
        }
        let to = to.min(self.slab[id].run.len());
        let id = self.use_until(id, slot.0, to, id);
        self.use_above(id, slot.0);
    }

    /// Makes the first `to` blocks of a worker's entry the newest of those that are confirmed, where they are; gives
    /// the node that has them then. The rest keeps its place; without room for a split it goes with them.
    pub(super) fn use_until(&mut self, id: u32, worker: u32, to: usize, guard: u32) -> u32 {
        let span = self.span(id, worker);
        let part = 0 < to && to < span.held && span.list() == Some(List::Confirmed);
        let parts = if part { self.split(id, to, guard) } else { None };
        let upper = parts.map_or(id, |(upper, _)| upper);
        self.use_entry(upper, worker);
        upper
    }

    /// Makes a worker's entry the newest of those that are confirmed; nothing where it is not one.
    pub(super) fn use_entry(&mut self, id: u32, worker: u32) {
        let span = self.span(id, worker);
        if span.list() == Some(List::Confirmed) && self.ends(worker, List::Confirmed)[1] != id {
            self.put(id, worker, span, true, NIL);
        }
    }

    /// Makes a worker's entries above `id` the newest, those nearer to the start newer.
    pub(super) fn use_above(&mut self, id: u32, worker: u32) {
        let mut next = self.parent_of(id);
        while let Some(id) = next {
            self.use_entry(id, worker);
            next = self.parent_of(id);
        }
    }

    /// How many of `blocks`, which start a prompt and which the worker holds, are left once it has evicted
    /// `evictions` blocks more.
    pub fn left(&self, slot: Slot, blocks: &[BlockHash], evictions: usize) -> usize {
        let mut left = blocks.len();
        if evictions == 0 || blocks.is_empty() || self.worker(slot).is_none() {
            return left;
        }
        let path = self.path(blocks);
        let (mut next, mut evictions) = (self.ends(slot.0, List::Confirmed)[0], evictions);
        for _ in 0..ENTRIES {
            if next == NIL || evictions == 0 {
                break;
            }
            let held = self.span(next, slot.0).held;
            if let Some((_, start)) = path.iter().find(|(id, _)| *id == next) {
                left = left.min(start + held.saturating_sub(evictions));
            }
            evictions = evictions.saturating_sub(held);
            next = self.links(next, slot.0).map_or(NIL, |(_, next)| next);
        }
        left
    }

    /// Blocks that are predicted for the worker at least until `expires`; of very many entries, those of some.
    pub fn predicted_beyond(&self, slot: Slot, expires: Time) -> usize {
        let mut next = self.worker(slot).map_or(NIL, |worker| worker.lists[List::Predicted as usize][1]);
        let mut blocks = 0;
        for _ in 0..ENTRIES {
            if next == NIL || self.span(next, slot.0).expires < expires {
                break;
            }
            blocks += self.span(next, slot.0).predicted();
            next = self.links(next, slot.0).map_or(NIL, |(prev, _)| prev);
        }
        blocks
    }

    /// The nodes on a path, each with the blocks before it.
    fn path(&self, blocks: &[BlockHash]) -> Vec<(u32, usize)> {
        let (mut path, mut reach) = (Vec::new(), Reach::ROOT);
        while let Some(child) = self.child(reach, blocks) {
            path.push((child, reach.depth));
            let within = common(&self.slab[child].run, &blocks[reach.depth..]);
            reach = Reach { at: child, within, depth: reach.depth + within };
        }
        path
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    const SLOT: Slot = Slot(0);

    fn blocks(from: u64) -> Vec<BlockHash> {
        (from..from + 6).map(BlockHash).collect()
    }

    /// Two prompts of four blocks with replies of two; the first one is older.
    fn index() -> (PrefixIndex, Vec<BlockHash>, Vec<BlockHash>) {
        let mut index = PrefixIndex::new(1 << 20);
        index.add_worker(SLOT, Some(12));
        let (first, second) = (blocks(10), blocks(20));
        for path in [&first, &second] {
            index.store(SLOT, None, &path[..4], Time::ZERO).unwrap();
            index.store(SLOT, Some(path[3]), &path[4..], Time::ZERO).unwrap();
        }
        (index, first, second)
    }

    #[test]
    fn the_last_blocks_of_what_was_used_least_recently_go_first() {
        let (index, first, second) = index();
        assert_eq!([0, 1, 6, 9].map(|gone| index.left(SLOT, &first, gone)), [6, 5, 0, 0]);
        assert_eq!([0, 1, 6, 9].map(|gone| index.left(SLOT, &second, gone)), [6, 6, 6, 3]);
        assert_eq!(index.left(SLOT, &first[..3], 4), 2);
    }

    #[test]
    fn the_end_of_a_request_is_a_use_of_its_prompt_and_of_its_reply() {
        let (mut index, first, second) = index();
        index.used(SLOT, first[3], 2);
        assert_eq!([3, 6, 7].map(|gone| index.left(SLOT, &second, gone)), [3, 0, 0]);
        assert_eq!([3, 6, 7].map(|gone| index.left(SLOT, &first, gone)), [6, 6, 5]);
        index.check().unwrap();
    }

    #[test]
    fn what_follows_a_prompt_and_is_not_its_reply_stays_old() {
        let (mut index, first, second) = index();
        index.used(SLOT, first[3], 0);
        assert_eq!(index.left(SLOT, &first, 2), 4);
        assert_eq!([2, 3].map(|gone| index.left(SLOT, &second, gone)), [6, 5]);
        index.check().unwrap();
    }
}
