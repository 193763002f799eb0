//! Random operations on the index and on the reference, compared after each.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

use super::check::Inconsistency;
use super::lower::LOWER;
use super::reference::{Fault, Path, Reference, State, hash, hashes};
use super::{IndexStats, Overlap, Overlaps, PrefixIndex, UnknownParent};
use crate::block::BlockHash;
use crate::ids::Slot;
use crate::time::Time;

const WORKERS: u32 = 4;

#[derive(Clone, Debug)]
enum Operation {
    Predict {
        worker: u32,
        prompt: Path,
        lifetime: u64,
    },
    Store {
        worker: u32,
        path: Path,
        from: usize,
    },
    Remove {
        worker: u32,
        path: Path,
    },
    /// Removes the deepest blocks that the worker holds on a path, as an engine evicts.
    RemoveTail {
        worker: u32,
        path: Path,
        blocks: usize,
    },
    /// Puts blocks away in the worker's lower tier.
    StoreLower {
        worker: u32,
        path: Path,
        from: usize,
    },
    /// The same for the last `blocks` blocks of a path, by the name of the last one.
    KeepLower {
        worker: u32,
        path: Path,
        blocks: usize,
    },
    RemoveLower {
        worker: u32,
        path: Path,
        blocks: usize,
    },
    ClearLower {
        worker: u32,
    },
    Clear {
        worker: u32,
        /// So many blocks at a time.
        at_once: usize,
    },
    DropPredictions {
        worker: u32,
    },
    AddWorker {
        worker: u32,
        capacity: Option<u32>,
    },
    RemoveWorker {
        worker: u32,
    },
    SetCapacity {
        worker: u32,
        capacity: Option<u32>,
    },
    Occupy {
        worker: u32,
        blocks: u32,
        lifetime: u64,
    },
    DropUntil {
        worker: u32,
        until: u64,
    },
    Refresh {
        worker: u32,
        path: Path,
        lifetime: u64,
    },
    Expire {
        nodes: usize,
    },
    Wait {
        time: u64,
    },
}

fn path() -> impl Strategy<Value = Path> {
    prop::collection::vec(prop_oneof![6 => Just(0_u8), 2 => Just(1), 1 => Just(2)], 1..18)
}

fn operation(capacities: bool) -> impl Strategy<Value = Operation> {
    let worker = || 0..WORKERS;
    let capacity = move || {
        let some = if capacities { 3 } else { 0 };
        prop_oneof![some => (0_u32..25).prop_map(Some), 2 => Just(None)]
    };
    let from = |path: Path| {
        let len = path.len();
        (Just(path), prop_oneof![2 => Just(0), 3 => 0..len])
    };
    use Operation::*;
    prop_oneof![
        12 => (worker(), path(), 0_u64..30).prop_map(|(worker, prompt, lifetime)| Predict { worker, prompt, lifetime }),
        10 => (worker(), path().prop_flat_map(from)).prop_map(|(worker, (path, from))| Store { worker, path, from }),
        6 => (worker(), path()).prop_map(|(worker, path)| Remove { worker, path }),
        6 => (worker(), path(), 1_usize..6).prop_map(|(worker, path, blocks)| RemoveTail { worker, path, blocks }),
        4 => (worker(), path().prop_flat_map(from)).prop_map(|(worker, (path, from))| StoreLower { worker, path, from }),
        6 => (worker(), path(), 1_usize..4).prop_map(|(worker, path, blocks)| KeepLower { worker, path, blocks }),
        5 => (worker(), path(), 1_usize..4).prop_map(|(worker, path, blocks)| RemoveLower { worker, path, blocks }),
        1 => worker().prop_map(|worker| ClearLower { worker }),
        1 => (worker(), 1_usize..9).prop_map(|(worker, at_once)| Clear { worker, at_once }),
        1 => worker().prop_map(|worker| DropPredictions { worker }),
        1 => (worker(), capacity()).prop_map(|(worker, capacity)| AddWorker { worker, capacity }),
        1 => worker().prop_map(|worker| RemoveWorker { worker }),
        1 => (worker(), capacity()).prop_map(|(worker, capacity)| SetCapacity { worker, capacity }),
        1 => (worker(), 0_u32..9, 0_u64..30).prop_map(|(worker, blocks, lifetime)| Occupy { worker, blocks, lifetime }),
        1 => (worker(), 0_u64..20).prop_map(|(worker, until)| DropUntil { worker, until }),
        3 => (worker(), path(), 0_u64..30).prop_map(|(worker, path, lifetime)| Refresh { worker, path, lifetime }),
        2 => (0_usize..100).prop_map(|nodes| Expire { nodes }),
        2 => (0_u64..10).prop_map(|time| Wait { time }),
    ]
}

/// The index beside the reference.
struct Pair {
    index: PrefixIndex,
    reference: Reference,
    now: u64,
    /// Prompts that were seen: lookups try them all.
    prompts: Vec<Path>,
    overlaps: Overlaps,
}

impl Pair {
    /// Three workers; the fourth comes later.
    fn new(max_bytes: usize, capacities: [Option<u32>; 3], fault: Option<Fault>) -> Pair {
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

    fn time(&self, after: u64) -> Time {
        Time::from_nanos(self.now + after)
    }

    /// Applies one operation to both; what they return must be equal.
    fn apply(&mut self, operation: &Operation) {
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
            ClearLower { worker } => {
                index.clear_lower(Slot(worker));
                reference.clear(worker | LOWER);
            }
            Clear { worker, at_once } => {
                while !index.clear_some(Slot(worker), at_once) {
                    index.check().unwrap();
                }
                index.clear_worker(Slot(worker));
                reference.clear_all(worker);
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
    fn forget_evicted(&mut self) {
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
    fn leaves(&self) -> Vec<(Time, Vec<BlockHash>)> {
        let index = &self.index;
        let nodes = (0..index.slab.end()).filter(|&id| index.slab.contains(id)).map(|id| &index.slab[id]);
        nodes.filter(|node| node.longest() > 0).map(|node| (node.touched, node.run.clone())).collect()
    }

    /// Nothing was evicted that is younger than something that stayed, and nothing stayed where the budget
    /// cut a prompt short; what the operation used aside.
    fn compare_order(&self, before: &[(Time, Vec<BlockHash>)], stats: IndexStats, operation: &Operation) {
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
    fn compare(&mut self) {
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
fn held(index: &PrefixIndex, worker: u32, path: &[u8]) -> Option<(bool, Time)> {
    let (id, at) = index.find(hash(path))?;
    let span = index.span(id, worker);
    match at {
        at if at < span.confirmed => Some((true, Time::ZERO)),
        at if at < span.held => Some((false, span.expires)),
        _ => None,
    }
}

fn check(outcome: Result<(), Inconsistency>) {
    if let Err(inconsistency) = outcome {
        panic!("{inconsistency}");
    }
}

fn play(operations: &[Operation], fault: Option<Fault>) {
    let mut pair = Pair::new(1 << 20, [Some(12), Some(30), None], fault);
    for operation in operations {
        pair.apply(operation);
        pair.compare();
        check(pair.index.check_trimmed());
        for path in pair.prompts.last().into_iter().flat_map(|path| (1..path.len()).map(|len| &path[..len])) {
            assert_eq!(
                pair.index.find(hash(path)).is_some(),
                pair.reference.knows(path),
                "{path:?} is known"
            );
        }
    }
    // The second round merges what the first one made neighbours.
    pair.index.expire(pair.time(0), usize::MAX);
    pair.index.expire(pair.time(0), usize::MAX);
    check(pair.index.check_merged());
}

proptest! {
    #![proptest_config(Config { cases: 500, ..Config::default() })]

    #[test]
    fn equals_the_reference(operations in prop::collection::vec(operation(true), 1..160)) {
        play(&operations, None);
    }

    #[test]
    fn demotion_keeps_overlaps_and_confirms_nothing(operations in prop::collection::vec(operation(false), 1..80)) {
        let mut pair = Pair::new(1 << 20, [None; 3], None);
        operations.iter().for_each(|operation| pair.apply(operation));
        let now = pair.time(0);
        let overlaps = |pair: &Pair, at| {
            let of = |prompt: &Path| {
                let mut overlaps = Overlaps::new();
                pair.index.lookup(&hashes(prompt), at, &mut overlaps);
                (0..WORKERS).map(|worker| overlaps.get(Slot(worker)).blocks).collect::<Vec<_>>()
            };
            pair.prompts.iter().map(of).collect::<Vec<_>>()
        };
        let before = overlaps(&pair, now);
        let expires = pair.time(1_000_000);
        (0..WORKERS).for_each(|worker| pair.index.demote(Slot(worker), now, expires));
        prop_assert_eq!(overlaps(&pair, now), before);
        prop_assert_eq!(pair.index.stats().confirmed, 0);
        check(pair.index.check());
        pair.index.expire(now, usize::MAX);
        check(pair.index.check_trimmed());
        pair.index.expire(expires, usize::MAX);
        prop_assert_eq!(pair.index.stats().predicted, 0);
    }

    #[test]
    fn a_demoted_worker_keeps_what_was_used_last(capacity in 0_u32..40, operations in prop::collection::vec(operation(false), 1..80)) {
        let mut pair = Pair::new(1 << 20, [None; 3], None);
        operations.iter().for_each(|operation| pair.apply(operation));
        pair.index.set_capacity(Slot(0), Some(capacity));
        let (now, expires) = (pair.time(0), pair.time(1_000_000));
        pair.index.demote(Slot(0), now, expires);
        prop_assert!(pair.index.blocks(Slot(0)).1 <= u64::from(capacity));
        check(pair.index.check());
    }

    #[test]
    fn a_small_budget_only_forgets(
        max_bytes in 4_500_usize..20_000,
        operations in prop::collection::vec(operation(false), 1..160),
    ) {
        let mut pair = Pair::new(max_bytes, [None; 3], None);
        for operation in &operations {
            pair.now += 1;
            let (before, stats) = (pair.leaves(), pair.index.stats());
            pair.apply(operation);
            // An index with room forgets nothing; one without may have missed what the reference learnt.
            let given_up = |stats: IndexStats| (stats.evicted_blocks, stats.cut_blocks);
            if pair.index.room() < 1000 || given_up(pair.index.stats()) != given_up(stats) {
                pair.forget_evicted();
            }
            pair.compare();
            pair.compare_order(&before, stats, operation);
        }
        pair.index.expire(pair.time(0), usize::MAX);
        check(pair.index.check_trimmed());
    }
}

/// Each planted mistake must be found by the comparison that finds none without it.
#[test]
fn a_mistake_in_the_reference_is_found() {
    for fault in [
        Fault::RemovalTakesDescendants,
        Fault::LifetimeIsSet,
        Fault::CapacityTakesFirstBlocks,
        Fault::PredictionDoesNotTouch,
        Fault::PredictionUnconfirms,
        Fault::LowerStartsAtTheRoot,
    ] {
        let config =
            Config { cases: 400, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
        let operations = prop::collection::vec(operation(true), 1..160);
        let outcome = TestRunner::new(config).run(&operations, |operations| {
            play(&operations, Some(fault));
            Ok(())
        });
        assert!(matches!(outcome, Err(TestError::Fail(..))), "{fault:?} is not found");
    }
}
