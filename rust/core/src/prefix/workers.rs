//! The workers: their capacity, and what they hold in all.

use super::PrefixIndex;
use super::node::{List, NIL, Span};
use crate::ids::Slot;
use crate::time::Time;

/// What the index knows of one worker.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) capacity: Option<u32>,
    pub(super) confirmed: usize,
    pub(super) predicted: usize,
    /// By [`List`]: the oldest and the newest entry, as nodes.
    pub(super) lists: [[u32; 2]; 2],
}

impl PrefixIndex {
    /// Makes `slot` known, holding nothing. `capacity_blocks` is the worker's KV cache in blocks: no more
    /// than that is predicted for it. A slot in use is cleared. Every slot up to the highest takes a few bytes.
    pub fn add_worker(&mut self, slot: Slot, capacity_blocks: Option<u32>) {
        self.remove_worker(slot);
        if self.workers.len() <= slot.index() {
            self.workers.reserve_exact(slot.index() + 1 - self.workers.len());
            self.workers.resize(slot.index() + 1, None);
        }
        let lists = [[NIL; 2]; 2];
        self.workers[slot.index()] =
            Some(Worker { capacity: capacity_blocks, confirmed: 0, predicted: 0, lists });
        self.fit(NIL, |_| 0);
    }

    /// Changes a worker's capacity; predictions beyond it are dropped, least recently touched first.
    pub fn set_capacity(&mut self, slot: Slot, capacity_blocks: Option<u32>) {
        if let Some(worker) = self.worker_mut(slot) {
            worker.capacity = capacity_blocks;
            self.enforce_capacity(slot.0);
        }
    }

    /// Drops everything that the worker holds, and forgets the slot.
    pub fn remove_worker(&mut self, slot: Slot) {
        self.clear_worker(slot);
        if let Some(worker) = self.workers.get_mut(slot.index()) {
            *worker = None;
        }
    }

    /// Drops everything that the worker holds: it restarted, or its events have a gap.
    pub fn clear_worker(&mut self, slot: Slot) {
        self.drop_predictions(slot);
        while let Some(id) = self.oldest_of(slot.0, List::Confirmed) {
            self.put(id, slot.0, Span::default(), false, NIL);
            self.tidy(id);
        }
    }

    /// Drops what is predicted for the worker and keeps what is confirmed.
    pub fn drop_predictions(&mut self, slot: Slot) {
        while let Some(id) = self.oldest_of(slot.0, List::Predicted) {
            self.keep_confirmed(id, slot.0);
            self.tidy(id);
        }
    }

    /// Blocks that the worker holds: confirmed, and predicted (expired ones too, until they are swept).
    pub fn blocks(&self, slot: Slot) -> (u64, u64) {
        self.worker(slot).map_or((0, 0), |worker| (worker.confirmed as u64, worker.predicted as u64))
    }

    /// Drops the least recently touched predictions of a worker, deepest first, down to its capacity.
    pub(super) fn enforce_capacity(&mut self, worker: u32) {
        while let Some(excess) = self.excess(worker)
            && let Some(id) = self.oldest_of(worker, List::Predicted)
        {
            let span = self.span(id, worker);
            let dropped = span.predicted().min(excess);
            self.put(id, worker, Span::new(span.confirmed, span.held - dropped, span.expires), false, NIL);
            self.counters.capacity_dropped += dropped as u64;
            self.tidy(id);
        }
    }

    /// Drops the predicted blocks of one entry; gives how many there were.
    pub(super) fn keep_confirmed(&mut self, id: u32, worker: u32) -> usize {
        let span = self.span(id, worker);
        let confirmed = Span::new(span.confirmed, span.confirmed, Time::ZERO);
        self.put(id, worker, confirmed, false, NIL);
        span.predicted()
    }

    pub(super) fn worker(&self, slot: Slot) -> Option<&Worker> {
        self.workers.get(slot.index()).and_then(Option::as_ref)
    }

    fn worker_mut(&mut self, slot: Slot) -> Option<&mut Worker> {
        self.workers.get_mut(slot.index()).and_then(Option::as_mut)
    }

    /// Predicted blocks beyond the capacity, where there are any.
    fn excess(&self, worker: u32) -> Option<usize> {
        let worker = self.worker(Slot(worker))?;
        let excess = worker.predicted.checked_sub(worker.capacity? as usize)?;
        (excess > 0).then_some(excess)
    }

    fn oldest_of(&self, worker: u32, list: List) -> Option<u32> {
        self.worker(Slot(worker)).map(|worker| worker.lists[list as usize][0]).filter(|&id| id != NIL)
    }
}
