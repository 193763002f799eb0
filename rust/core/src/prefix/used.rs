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
    /// Notes that the worker has used what is confirmed of the prompt that ends with `block`.
    pub fn used(&mut self, slot: Slot, block: BlockHash) {
        if self.worker(slot).is_some()
            && let Some((id, index)) = self.find(block)
        {
            let id = self.use_until(id, slot.0, index + 1, id);
            self.use_above(id, slot.0);
        }
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
