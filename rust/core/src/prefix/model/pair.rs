//! The index and the reference, side by side.

use super::WORKERS;
use super::operation::Operation;
use super::reference::{Fault, Path, Reference, State, hash, hashes};
use crate::block::BlockHash;
use crate::ids::Slot;
use crate::prefix::check::Inconsistency;
use crate::prefix::lower::LOWER;
use crate::prefix::{IndexStats, Overlap, Overlaps, PrefixIndex, UnknownParent};
use crate::time::Time;

/// The index beside the reference.
pub(super) struct Pair {
    pub(super) index: PrefixIndex,
    pub(super) reference: Reference,
    pub(super) now: u64,
    /// Prompts that were seen: lookups try them all.
    pub(super) prompts: Vec<Path>,
    overlaps: Overlaps,
}

impl Pair {
    /// Three workers; the fourth comes later.
    pub(super) fn new(max_bytes: usize, capacities: [Option<u32>; 3], fault: Option<Fault>) -> Pair {
        let mut pair = Pair {
            index: PrefixIndex::new(max_bytes),
            reference: Reference { fault, ..Reference::default() },
            now: 1,
            prompts: Vec::new(),
            overlaps: Overlaps::new(),
        };
        for (worker, capacity) in (0..).zip(capacities) {
            pair.apply(&Operation::AddWorker { worker, capacity });
        }
        pair
    }

    pub(super) fn time(&self, after: u64) -> Time {
        Time::from_nanos(self.now + after)
    }

    /// Applies one operation to both; what they return must be equal.
    pub(super) fn apply(&mut self, operation: &Operation) {
        use Operation::*;
        let (now, index, reference) = (self.time(0), &mut self.index, &mut self.reference);
        match *operation {
            Predict { worker, ref prompt, lifetime } => {
                // Few different moments, so that some predictions expire together.
                let expires = (self.now + lifetime) / 8 * 8;
                index.predict(Slot(worker), &hashes(prompt), now, Time::from_nanos(expires));
                reference.predict(worker, prompt, self.now, expires);
                self.prompts.push(prompt.clone());
            }
            Store { worker, ref path, from } => {
                let parent = (from > 0).then(|| hash(&path[..from]));
                let unknown = parent.filter(|&parent| index.find(parent).is_none());
                let stored = index.store(Slot(worker), parent, &hashes(path)[from..], now);
                assert_eq!(stored, unknown.map_or(Ok(()), |parent| Err(UnknownParent(parent))));
                if stored.is_ok() {
                    reference.store(worker, path, from);
                }
                self.prompts.push(path.clone());
            }
            Remove { worker, ref path } => {
                assert_eq!(index.remove(Slot(worker), hash(path)), reference.remove(worker, path));
            }
            RemoveTail { worker, ref path, blocks } => {
                let held: Vec<usize> =
                    (1..=path.len()).filter(|&len| reference.get(worker, &path[..len]).is_some()).collect();
                for &len in held.iter().rev().take(blocks) {
                    assert!(index.remove(Slot(worker), hash(&path[..len])));
                    assert!(reference.remove(worker, &path[..len]));
                }
            }
            Expire { nodes } => self.expire(nodes),
            Wait { time } => self.now += time,
            StoreLower { .. } | KeepLower { .. } | RemoveLower { .. } => self.apply_to_lower(operation),
            _ => self.apply_to_worker(operation),
        }
    }

    /// Applies an operation on blocks in a lower tier.
    fn apply_to_lower(&mut self, operation: &Operation) {
        use Operation::*;
        let (now, index, reference) = (self.time(0), &mut self.index, &mut self.reference);
        match *operation {
            StoreLower { worker, ref path, from } => {
                let parent = (from > 0).then(|| hash(&path[..from]));
                let stored = index.store_lower(Slot(worker), parent, &hashes(path)[from..], now);
                if stored.is_ok() && reference.workers.contains_key(&worker) {
                    reference.hold_lower(worker, path, path.len() - from);
                }
                self.prompts.push(path.clone());
            }
            KeepLower { worker, ref path, blocks } => {
                let kept = index.keep_lower(Slot(worker), hash(path), blocks, now);
                if kept.is_ok() && reference.workers.contains_key(&worker) {
                    reference.hold_lower(worker, path, blocks.min(path.len()));
                }
                self.prompts.push(path.clone());
            }
            RemoveLower { worker, ref path, blocks } => {
                let known = index.find(hash(path)).is_some();
                index.remove_lower(Slot(worker), hash(path), blocks);
                for len in (1..=path.len()).rev().take(if known { blocks } else { 0 }) {
                    reference.held.remove(&(worker | LOWER, path[..len].to_vec()));
                }
            }
            _ => unreachable!("{operation:?} is not on lower tiers"),
        }
    }

    /// Applies an operation on all that one worker holds.
    fn apply_to_worker(&mut self, operation: &Operation) {
        use Operation::*;
        let (now, index, reference) = (self.time(0), &mut self.index, &mut self.reference);
        match *operation {
            Forget { worker, what, at_once } => {
                let mut forgetting = index.forget(Slot(worker), what);
                while !index.forget_some(Slot(worker), &mut forgetting, now, now, at_once) {
                    check(index.check());
                }
                reference.forget(worker, what, 0);
            }
            DropPredictions { worker } => {
                index.drop_predictions(Slot(worker));
                reference.drop_predictions(worker);
            }
            AddWorker { worker, capacity } => {
                index.add_worker(Slot(worker), capacity);
                reference.clear_all(worker);
                reference.workers.insert(worker, capacity);
            }
            RemoveWorker { worker } => {
                index.remove_worker(Slot(worker));
                reference.clear_all(worker);
                reference.workers.remove(&worker);
            }
            SetCapacity { worker, capacity } => {
                index.set_capacity(Slot(worker), capacity);
                if let Some(known) = reference.workers.get_mut(&worker) {
                    *known = capacity;
                    if capacity.is_none() {
                        reference.ballast.remove(&worker);
                    }
                    reference.enforce_capacity(worker);
                }
            }
            Occupy { worker, blocks, lifetime } => {
                let expires = (self.now + lifetime) / 8 * 8;
                index.occupy(Slot(worker), blocks, Time::from_nanos(expires));
                reference.occupy(worker, blocks as usize, expires);
            }
            DropUntil { worker, until } => {
                index.drop_predictions_until(Slot(worker), Time::from_nanos(self.now + until));
                reference.drop_until(worker, self.now + until);
            }
            Refresh { worker, ref path, lifetime } => {
                let expires = (self.now + lifetime) / 8 * 8;
                let known = index.find(hash(path)).is_some();
                index.refresh(Slot(worker), hash(path), now, Time::from_nanos(expires));
                if known && expires > self.now {
                    reference.refresh(worker, path, expires);
                }
            }
            _ => unreachable!("{operation:?} is on blocks"),
        }
    }

    /// A sweep of some nodes may drop any expired prediction, and no other.
    fn expire(&mut self, nodes: usize) {
        let now = self.time(0);
        let before = self.index.stats().predicted;
        let dropped = self.index.expire(now, nodes);
        assert_eq!(before - dropped, self.index.stats().predicted);
        if nodes >= self.index.slab.end() as usize {
            self.reference.expire(self.now);
            return;
        }
        let mut swept = self.reference.clone();
        swept.expire(self.now);
        let index = &self.index;
        self.reference.held.retain(|(worker, path), _| {
            swept.get(*worker, path).is_some() || held(index, *worker, path).is_some()
        });
    }

    /// Takes over what the index gave up for its budget: pairs, and news of what is held anyway.
    pub(super) fn forget_evicted(&mut self) {
        let index = &self.index;
        self.reference.held.retain(|(worker, path), state| {
            let held = held(index, *worker, path);
            if let (Some((false, expires)), State::Confirmed) = (held, *state) {
                *state = State::Predicted { expires: expires.as_nanos(), touched: 0 };
            }
            held.is_some()
        });
    }

    /// When each node with holders was touched, and its blocks.
    pub(super) fn leaves(&self) -> Vec<(Time, Vec<BlockHash>)> {
        let index = &self.index;
        let nodes = (0..index.slab.end()).filter(|&id| index.slab.contains(id)).map(|id| &index.slab[id]);
        nodes.filter(|node| node.longest() > 0).map(|node| (node.touched, node.run.clone())).collect()
    }

    /// Nothing was evicted that is younger than something that stayed, and nothing stayed where the budget
    /// cut a prompt short; what the operation used aside.
    pub(super) fn compare_order(
        &self,
        before: &[(Time, Vec<BlockHash>)],
        stats: IndexStats,
        operation: &Operation,
    ) {
        let used = match operation {
            Operation::Predict { prompt, .. } => hashes(prompt),
            Operation::Store { path, .. }
            | Operation::StoreLower { path, .. }
            | Operation::KeepLower { path, .. } => hashes(path),
            _ => return,
        };
        let others = before.iter().filter(|(_, run)| !run.iter().any(|hash| used.contains(hash)));
        let (stayed, evicted): (Vec<_>, Vec<_>) =
            others.partition(|(_, run)| self.index.find(run[0]).is_some());
        let oldest = stayed.iter().map(|(touched, _)| *touched).min().unwrap_or(Time::MAX);
        let youngest = evicted.iter().map(|(touched, _)| *touched).max().unwrap_or(Time::ZERO);
        assert!(youngest <= oldest, "evicted {youngest:?} and kept {oldest:?}");
        let cut = self.index.stats().cut_blocks > stats.cut_blocks;
        assert!(!cut || stayed.is_empty(), "a prompt was cut, and {stayed:?} stayed");
    }

    /// Every pair, every count and every overlap is equal.
    pub(super) fn compare(&mut self) {
        check(self.index.check());
        assert!(self.index.bytes() <= self.index.max_bytes());
        for ((worker, path), state) in &self.reference.held {
            let expected = match *state {
                State::Confirmed => (true, Time::ZERO),
                State::Predicted { expires, .. } => (false, Time::from_nanos(expires)),
            };
            assert_eq!(held(&self.index, *worker, path), Some(expected), "worker {worker} holds {path:?}");
        }
        let mut pairs = 0;
        for worker in 0..WORKERS {
            let count = self.reference.count(worker);
            assert_eq!(
                self.index.blocks(Slot(worker)),
                (count.0 as u64, count.1 as u64),
                "blocks of worker {worker}"
            );
            assert_eq!(self.index.occupied(Slot(worker)), self.reference.occupied(worker) as u64);
            let lower = self.reference.count(worker | LOWER).0;
            assert_eq!(
                self.index.lower_blocks(Slot(worker)),
                lower as u64,
                "lower blocks of worker {worker}"
            );
            pairs += count.0 + count.1 + lower;
        }
        assert_eq!(self.index.stats().pairs, pairs);
        for prompt in self.prompts.iter().rev().take(5).chain(self.prompts.first()) {
            self.index.lookup(&hashes(prompt), Time::from_nanos(self.now), &mut self.overlaps);
            for worker in 0..WORKERS {
                let Overlap { blocks, confirmed, lower } = self.overlaps.get(Slot(worker));
                let expected = self.reference.overlap(worker, prompt, self.now);
                assert_eq!((blocks, confirmed), expected, "worker {worker} on {prompt:?} at {}", self.now);
                let expected = self.reference.lower(worker, prompt, self.now);
                assert_eq!(lower, expected, "lower tier of {worker} on {prompt:?} at {}", self.now);
            }
            let listed: Vec<_> = self.overlaps.iter().collect();
            assert!(
                listed.is_sorted_by(|a, b| a.0 < b.0) && listed.iter().all(|(_, overlap)| overlap.blocks > 0)
            );
            let nonzero = (0..WORKERS).filter(|&worker| self.overlaps.get(Slot(worker)).blocks > 0).count();
            assert_eq!(listed.len(), nonzero);
        }
    }
}

/// Whether the worker's block is confirmed, and until when it is predicted.
pub(super) fn held(index: &PrefixIndex, worker: u32, path: &[u8]) -> Option<(bool, Time)> {
    let (id, at) = index.find(hash(path))?;
    let span = index.span(id, worker);
    match at {
        at if at < span.confirmed => Some((true, Time::ZERO)),
        at if at < span.held => Some((false, span.expires)),
        _ => None,
    }
}

pub(super) fn check(outcome: Result<(), Inconsistency>) {
    if let Err(inconsistency) = outcome {
        panic!("{inconsistency}");
    }
}
