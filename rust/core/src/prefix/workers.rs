//! The workers: their capacity, and what they hold in all.

use super::PrefixIndex;
use super::ballast::Ballast;
use super::forget::Forget;
use super::lower::{LOWER, lower};
use super::mark::Mark;
use super::node::{List, NIL, Span};
use super::walk::Reach;
use crate::block::BlockHash;
use crate::ids::Slot;
use crate::time::Time;

/// What the index knows of one worker.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) capacity: Option<u32>,
    pub(super) confirmed: usize,
    pub(super) predicted: usize,
    pub(super) ballast: Ballast,
    /// By [`List`]: the oldest and the newest entry, as nodes.
    pub(super) lists: [[u32; 2]; 2],
}

impl PrefixIndex {
    /// Makes `slot` known, holding nothing. `capacity_blocks` is the worker's KV cache in blocks: no more
    /// than that is predicted for it. A slot in use is cleared. Every slot up to the highest takes a few hundred bytes.
    pub fn add_worker(&mut self, slot: Slot, capacity_blocks: Option<u32>) {
        self.remove_worker(slot);
        let (workers, index) = self.places(slot);
        if workers.len() <= index {
            if workers.capacity() <= index {
                // By a quarter at least: a fleet that comes one by one is not moved for each.
                workers.reserve_exact((index + 1 - workers.len()).max(workers.len() / 4));
            }
            workers.resize(index + 1, None);
        }
        let lists = [[NIL; 2]; 2];
        workers[index] = Some(Worker {
            capacity: capacity_blocks,
            confirmed: 0,
            predicted: 0,
            ballast: Ballast::default(),
            lists,
        });
        self.fit(NIL, |_| 0);
    }

    /// Changes a worker's capacity; predictions beyond it are dropped, least recently touched first.
    pub fn set_capacity(&mut self, slot: Slot, capacity_blocks: Option<u32>) {
        if let Some(worker) = self.worker_mut(slot) {
            worker.capacity = capacity_blocks;
            if capacity_blocks.is_none() {
                worker.ballast = Ballast::default();
            }
            self.enforce_capacity(slot.0);
        }
    }

    /// Drops everything that the worker holds, and forgets the slot.
    pub fn remove_worker(&mut self, slot: Slot) {
        self.clear_worker(slot);
        for slot in [slot, lower(slot)] {
            let (workers, index) = self.places(slot);
            if let Some(worker) = workers.get_mut(index) {
                *worker = None;
            }
        }
    }

    /// Drops everything that the worker holds, in lower tiers too. [`PrefixIndex::forget`] does so bit by bit.
    pub fn clear_worker(&mut self, slot: Slot) {
        let mut forgetting = self.forget(slot, Forget::Everything);
        self.forget_some(slot, &mut forgetting, Time::ZERO, Time::ZERO, usize::MAX);
    }

    /// Whether the worker is known to hold `block`.
    pub fn is_confirmed(&self, slot: Slot, block: BlockHash) -> bool {
        self.find(block).is_some_and(|(id, index)| index < self.span(id, slot.0).confirmed)
    }

    /// Drops what is predicted for the worker and keeps what is confirmed.
    pub fn drop_predictions(&mut self, slot: Slot) {
        while let Some(id) = self.oldest_of(slot.0, List::Predicted) {
            self.keep_confirmed(id, slot.0);
            self.tidy(id);
        }
    }

    /// Drops the worker's predictions that were last touched no later than one that lives until `until`: an engine
    /// that has evicted that one has evicted them before.
    pub fn drop_predictions_until(&mut self, slot: Slot, until: Time) {
        while let Some(id) = self.oldest_of(slot.0, List::Predicted)
            && self.span(id, slot.0).expires <= until
        {
            self.keep_confirmed(id, slot.0);
            self.tidy(id);
        }
        while let Some(worker) = self.worker_mut(slot)
            && worker.ballast.oldest().is_some_and(|expires| expires <= until)
        {
            worker.ballast.take(usize::MAX);
        }
    }

    /// Until when `block` is predicted for the worker; none where it is not held, or confirmed.
    pub fn predicted_until(&self, slot: Slot, block: BlockHash) -> Option<Time> {
        let (id, index) = self.find(block)?;
        let span = self.span(id, slot.0);
        (span.confirmed..span.held).contains(&index).then_some(span.expires)
    }

    /// Touches what is predicted for the worker of the prompt that ends with `block`, as if it were predicted again.
    pub fn refresh(&mut self, slot: Slot, block: BlockHash, now: Time, expires: Time) {
        let Some((at, index)) = self.find(block) else { return };
        if self.worker(slot).is_none() || expires <= now {
            return;
        }
        self.now = self.now.max(now);
        let reach = Reach { at, within: index + 1, depth: usize::MAX };
        let deepest = self.mark(reach, slot.0, Mark::Refreshed(expires));
        self.finish(deepest);
    }

    /// Blocks that the worker holds: confirmed, and predicted (expired ones too, until they are swept).
    pub fn blocks(&self, slot: Slot) -> (u64, u64) {
        self.worker(slot).map_or((0, 0), |worker| (worker.confirmed as u64, worker.predicted as u64))
    }

    /// Drops the least recently touched predictions of a worker, deepest first, down to its capacity.
    pub(super) fn enforce_capacity(&mut self, worker: u32) {
        if self.excess(worker, 0).is_some() {
            self.make_room(worker, 0, usize::MAX);
        }
    }

    /// The same, until `more` blocks have room, for at most `most` blocks; gives how many were dropped.
    pub(super) fn make_room(&mut self, worker: u32, more: usize, most: usize) -> usize {
        let mut left = most;
        while let Some(excess) = self.excess(worker, more)
            && left > 0
        {
            let excess = excess.min(left);
            let oldest = self.oldest_of(worker, List::Predicted);
            let expires = oldest.map(|id| self.span(id, worker).expires);
            if let Some(known) = self.worker_mut(Slot(worker))
                && known
                    .ballast
                    .oldest()
                    .is_some_and(|oldest| expires.is_none_or(|expires| oldest <= expires))
            {
                left -= known.ballast.take(excess);
                continue;
            }
            let Some(id) = oldest else { break };
            let span = self.span(id, worker);
            let dropped = span.predicted().min(excess);
            self.put(id, worker, span.without(dropped), false, NIL);
            self.count_dropped(dropped);
            self.tidy(id);
            left -= dropped;
        }
        most - left
    }

    /// Counts blocks that went for a worker's capacity.
    pub(super) fn count_dropped(&mut self, blocks: usize) {
        self.counters.capacity_dropped += blocks as u64;
    }

    /// Drops the predicted blocks of one entry; gives how many there were.
    pub(super) fn keep_confirmed(&mut self, id: u32, worker: u32) -> usize {
        let span = self.span(id, worker);
        let confirmed = Span::new(span.confirmed, span.confirmed, Time::ZERO);
        self.put(id, worker, confirmed, false, NIL);
        span.predicted()
    }

    pub(super) fn worker(&self, slot: Slot) -> Option<&Worker> {
        let workers = if slot.0 & LOWER == 0 { &self.workers } else { &self.lower };
        workers.get((slot.0 & !LOWER) as usize).and_then(Option::as_ref)
    }

    pub(super) fn worker_mut(&mut self, slot: Slot) -> Option<&mut Worker> {
        let (workers, index) = self.places(slot);
        workers.get_mut(index).and_then(Option::as_mut)
    }

    /// The workers among which the one of `slot` is, and its place.
    fn places(&mut self, slot: Slot) -> (&mut Vec<Option<Worker>>, usize) {
        let workers = if slot.0 & LOWER == 0 { &mut self.workers } else { &mut self.lower };
        (workers, (slot.0 & !LOWER) as usize)
    }

    /// Predicted blocks beyond the capacity, where there are any once there are `more`.
    pub(super) fn excess(&self, worker: u32, more: usize) -> Option<usize> {
        let worker = self.worker(Slot(worker))?;
        let predicted = worker.predicted + worker.ballast.blocks() + more;
        predicted.checked_sub(worker.capacity? as usize).filter(|excess| *excess > 0)
    }

    pub(super) fn oldest_of(&self, worker: u32, list: List) -> Option<u32> {
        self.worker(Slot(worker)).map(|worker| worker.lists[list as usize][0]).filter(|&id| id != NIL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each time that the table of workers grows, all are moved.
    #[test]
    fn a_fleet_that_comes_one_by_one_is_seldom_moved() {
        let mut index = PrefixIndex::new(1 << 30);
        let (mut moves, mut capacity) = (0, 0);
        for slot in 0..2000 {
            index.add_worker(Slot(slot), None);
            moves += usize::from(index.workers.capacity() != capacity);
            capacity = index.workers.capacity();
        }
        assert!(moves < 60, "{moves} moves");
    }
}
