//! A mirror against a slow, obvious engine whose events are lost, doubled and reordered on their way.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use warmroute_core::block::Namespace;
use warmroute_core::config::RouterConfig;
use warmroute_core::event::EngineHash;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::ids::WorkerId;
use warmroute_core::mirror::{Mirror, MirrorStats, Status};
use warmroute_core::prefix::Overlaps;
use warmroute_core::router::{RouteRequest, SharedRouter};
use warmroute_core::time::Time;

#[path = "support/engine.rs"]
mod engine;

use engine::{BLOCK, Engine, Path, SALTS, every_path, name, tokens};

#[derive(Clone, Debug)]
enum Step {
    /// A request: what is not held is stored, and the last block of what is held whole is stored once more.
    Prompt {
        path: Path,
        full_report: bool,
    },
    /// The first of the held blocks after `at` goes, one copy of it.
    Evict {
        at: Path,
    },
    /// The blocks of a path that the device holds are put away, one more copy of each. `named` says that the engine
    /// names them alone; otherwise it says their tokens and what is before them, and no keys.
    PutAway {
        path: Path,
        named: bool,
    },
    /// The first of the blocks after `at` that are put away is dropped, one copy of it.
    Drop {
        at: Path,
    },
    Clear,
    Restart {
        told: bool,
    },
    /// The batches that are under way arrive, but for those lost; some twice, some late.
    Arrive {
        fates: Vec<u8>,
    },
    /// Everything arrives or is asked for again.
    Quiet,
    /// The router itself takes the worker for dead, and for alive again.
    Blink,
    /// The router predicts a prompt.
    Route {
        path: Path,
    },
}

fn path() -> impl Strategy<Value = Path> {
    (0_u8..2, prop::collection::vec(0_u8..2, 1..6)).prop_map(|(salt, rest)| [vec![salt], rest].concat())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (path(), prop::bool::weighted(0.15)).prop_map(|(path, full_report)| Step::Prompt { path, full_report }),
        8 => path().prop_map(|at| Step::Evict { at }),
        5 => (path(), any::<bool>()).prop_map(|(path, named)| Step::PutAway { path, named }),
        4 => path().prop_map(|at| Step::Drop { at }),
        1 => Just(Step::Clear),
        1 => any::<bool>().prop_map(|told| Step::Restart { told }),
        6 => prop::collection::vec(0_u8..12, 0..8).prop_map(|fates| Step::Arrive { fates }),
        3 => Just(Step::Quiet),
        1 => Just(Step::Blink),
        2 => path().prop_map(|path| Step::Route { path }),
    ]
}

struct Pair {
    engine: Engine,
    router: SharedRouter,
    worker: WorkerId,
    mirror: Mirror,
    /// The router saw every batch that counts, or knows that it did not.
    losses: u64,
    /// The router's blocks in one of the engine's.
    parts: usize,
    /// The engine's blocks in one of the router's.
    pages: usize,
    now: Time,
}

impl Pair {
    fn new(parts: usize, pages: usize) -> Pair {
        let config = RouterConfig { block_size: (BLOCK * pages / parts) as u32, ..RouterConfig::default() };
        #[expect(clippy::disallowed_methods, reason = "an origin like any other: no time is told")]
        let router = SharedRouter::new(config, Instant::now()).unwrap();
        let spec = WorkerSpec { name: "w".to_owned(), kv_blocks: Some(1000), ..WorkerSpec::default() };
        let worker = router.lock().add_worker(spec).unwrap();
        let mirror = Mirror::new(router.clone(), worker, 3);
        Pair { engine: Engine::default(), router, worker, mirror, losses: 0, parts, pages, now: Time::ZERO }
    }

    fn arrive(&mut self, number: u64, payload: &[u8]) {
        self.mirror.take(number, payload, self.now);
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Prompt { path, full_report } => self.engine.prompt(path, *full_report),
            Step::Evict { at } => self.engine.evict(at),
            Step::PutAway { path, named } => self.engine.put_away(path, *named),
            Step::Drop { at } => self.engine.drop_lower(at),
            Step::Clear => self.engine.clear(),
            Step::Restart { told } => {
                self.engine.restart();
                if *told {
                    self.mirror.restarted();
                } else {
                    // The first batch of a new process is what tells it from the old one.
                    self.engine.prompt(&[0, 0], false);
                    let (number, payload) = self.engine.under_way.remove(0);
                    self.arrive(number, &payload);
                }
            }
            Step::Arrive { fates } => {
                for (fate, (number, payload)) in fates.iter().zip(std::mem::take(&mut self.engine.under_way))
                {
                    match fate {
                        0 => {}
                        1 => self.engine.under_way.push((number, payload)),
                        2 => {
                            self.arrive(number, &payload);
                            self.arrive(number, &payload);
                        }
                        _ => self.arrive(number, &payload),
                    }
                }
            }
            Step::Quiet => self.quiet(),
            Step::Blink => {
                self.router.lock().set_ready("w", false).unwrap();
                self.router.lock().set_ready("w", true).unwrap();
            }
            Step::Route { path } => {
                let blocks = self.blocks(path);
                let tokens = (blocks.len() * BLOCK * self.pages / self.parts + 1) as u32;
                let request =
                    RouteRequest { blocks: &blocks, prompt_tokens: tokens, ..RouteRequest::default() };
                drop(self.router.route(&request, self.now, 0).unwrap());
            }
        }
    }

    /// The engine sends one more batch, everything arrives, and what is missing is asked for.
    fn quiet(&mut self) {
        self.engine.prompt(&[1, 1], false);
        for (number, payload) in std::mem::take(&mut self.engine.under_way) {
            self.arrive(number, &payload);
        }
        let (number, payload) = self.engine.sent.last().unwrap().clone();
        let mut status = self.mirror.take(number, &payload, self.now);
        for _ in 0..5 {
            let Status::Behind(from) = status else { break };
            for (number, payload) in self.engine.sent.iter().filter(|(number, _)| *number >= from) {
                self.mirror.replayed(from, *number, payload, self.now);
            }
            status = self.mirror.replay_ended(from, self.now);
        }
        assert_eq!(status, Status::Live);
        assert_eq!(self.mirror.stats().next, self.engine.number, "{:?}", self.mirror.stats());
        self.compare();
    }

    fn blocks(&self, path: &[u8]) -> Vec<warmroute_core::block::BlockHash> {
        let space = Namespace { salt: SALTS[usize::from(path[0])], ..Namespace::default() };
        let ids: Vec<u8> =
            path[1..].iter().flat_map(|letter| tokens(*letter)).flat_map(u32::to_le_bytes).collect();
        let mut blocks = Vec::new();
        self.router.hasher().hash_ids(&space, &ids, &mut blocks);
        blocks
    }

    /// Confirmed is what the engine holds; after a loss, nothing that it does not hold.
    fn compare(&mut self) {
        let stats = self.mirror.stats();
        let lost = stats.losses > self.losses;
        let mut overlaps = Overlaps::new();
        for path in every_path() {
            self.router.lock().index().lookup(&self.blocks(&path), self.now, &mut overlaps);
            let (known, real) = (
                overlaps.get(self.worker.slot()).confirmed as usize,
                self.engine.overlap(&path) * self.parts / self.pages,
            );
            if lost {
                assert!(known <= real, "{path:?}: {known} confirmed, {real} held");
            } else {
                assert_eq!(known, real, "{path:?} {stats:?}");
            }
            self.compare_lower(&path, lost);
        }
        let confirmed = self.router.lock().index().blocks(self.worker.slot()).0 as usize;
        if self.pages == 1 {
            assert_eq!(confirmed, stats.blocks * self.parts, "blocks in the index and in the mirror");
        }
        let told = self.mirror.confirmed();
        assert_eq!((told.next, told.live, told.blocks), (stats.next, true, confirmed as u64));
        let real = self.engine.held.keys().map(|path| EngineHash(name(path, self.engine.process)));
        let (told, real): (HashSet<_>, HashSet<_>) = (told.names.into_iter().collect(), real.collect());
        if lost {
            assert!(told.is_subset(&real));
        } else {
            assert_eq!(told, real);
            assert_eq!(confirmed, self.whole(&self.engine.held));
            assert_eq!(stats.blocks, self.engine.held.len());
        }
        self.router.lock().index().check().unwrap();
    }
}

impl Pair {
    /// How many of the router's blocks are wholly held.
    fn whole(&self, held: &BTreeMap<Path, u32>) -> usize {
        let ends = held.keys().filter(|path| (path.len() - 1) % self.pages == 0);
        let whole = |path: &&Path| (0..self.pages).all(|back| held.contains_key(&path[..path.len() - back]));
        ends.filter(whole).count() * self.parts
    }

    /// What is put away is known to be, block by block; after a loss, nothing that is not.
    fn compare_lower(&self, path: &[u8], lost: bool) {
        let blocks = self.blocks(path);
        let router = self.router.lock();
        for (index, block) in blocks.iter().enumerate() {
            let first = index * self.pages / self.parts + 2;
            let real = (first..first + self.pages).all(|end| self.engine.lower.contains_key(&path[..end]));
            let known = router.index().is_lower(self.worker.slot(), *block);
            assert!(known == real || (lost && !known), "{path:?} at {index}: {known}, and {real} in fact");
        }
        if !lost {
            let blocks = self.whole(&self.engine.lower);
            assert_eq!(router.index().lower_blocks(self.worker.slot()), blocks as u64);
            assert_eq!(self.mirror.stats().lower_blocks, self.engine.lower.len());
        }
    }
}

fn play(steps: &[Step], parts: usize, pages: usize) -> MirrorStats {
    let mut pair = Pair::new(parts, pages);
    for step in steps {
        pair.step(step);
        // What was lost before a new beginning does not matter after it.
        if matches!(step, Step::Restart { .. } | Step::Blink) {
            pair.losses = pair.mirror.stats().losses;
        }
    }
    pair.quiet();
    pair.mirror.stats()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_index_is_what_the_engine_holds(
        steps in prop::collection::vec(step(), 1..60),
        (parts, pages) in prop_oneof![Just((1, 1)), Just((2, 1)), Just((1, 2)), Just((1, 3))],
    ) {
        play(&steps, parts, pages);
    }
}

/// A ROUTER socket drops what its peer does not take in time: in the middle, at the end, and the end itself.
#[test]
fn what_is_dropped_of_a_replay_is_asked_for_again() {
    let mut pair = Pair::new(1, 1);
    (0..6).for_each(|letter| pair.engine.prompt(&[0, letter, letter], false));
    let sent = std::mem::take(&mut pair.engine.under_way);
    let now = pair.now;
    assert_eq!(pair.mirror.catch_up(), Status::Behind(0));
    for number in [0, 1, 3, 4] {
        pair.mirror.replayed(0, number, &sent[number as usize].1, now);
    }
    assert_eq!(pair.mirror.status(), Status::Behind(2));
    assert_eq!(
        pair.mirror.replay_ended(0, now),
        Status::Behind(2),
        "the answer to the first question is over"
    );
    for number in [2, 3] {
        pair.mirror.replayed(2, number, &sent[number as usize].1, now);
    }
    assert_eq!(pair.mirror.replay_failed(2, now), Status::Behind(4));
    for number in [4, 5] {
        pair.mirror.replayed(4, number, &sent[number as usize].1, now);
    }
    assert_eq!(pair.mirror.replay_failed(4, now), Status::Behind(6));
    assert_eq!(pair.mirror.replay_ended(6, now), Status::Live);
    assert_eq!(pair.mirror.stats().losses, 0);
    pair.quiet();
}

/// A process that went had sent the number that comes next of the process in its place.
#[test]
fn what_waited_of_an_older_process_is_not_what_comes_next() {
    let mut pair = Pair::new(1, 1);
    (0..3).for_each(|letter| pair.engine.prompt(&[0, letter, letter], false));
    let old = std::mem::take(&mut pair.engine.under_way);
    pair.arrive(2, &old[2].1);
    assert_eq!(pair.mirror.status(), Status::Behind(0));
    pair.engine.restart();
    (0..2).for_each(|letter| pair.engine.prompt(&[0, letter], false));
    for (number, payload) in std::mem::take(&mut pair.engine.under_way) {
        pair.mirror.replayed(0, number, &payload, pair.now);
    }
    assert_eq!(pair.mirror.replay_ended(0, pair.now), Status::Live);
    let stats = pair.mirror.stats();
    assert_eq!((stats.next, stats.blocks, stats.duplicates), (2, 2, 1));
    pair.quiet();
}

/// A clock that goes back makes no older process of one whose batches are lost.
#[test]
fn a_clock_that_goes_back_ends_no_events() {
    let mut pair = Pair::new(1, 1);
    pair.engine.made = 1000.0;
    (0..2).for_each(|letter| pair.engine.prompt(&[0, letter], false));
    let sent = std::mem::take(&mut pair.engine.under_way);
    sent.iter().for_each(|(number, payload)| pair.arrive(*number, payload));
    pair.engine.made = 10.0;
    (0..3).for_each(|letter| pair.engine.prompt(&[1, letter, letter], false));
    let sent = std::mem::take(&mut pair.engine.under_way);
    // The first one is lost, and nobody can replay it.
    let from = sent[0].0;
    sent[1..].iter().for_each(|(number, payload)| pair.arrive(*number, payload));
    assert_eq!(pair.mirror.status(), Status::Behind(from));
    assert_eq!(pair.mirror.replay_failed(from, pair.now), Status::Live);
    let stats = pair.mirror.stats();
    assert_eq!((stats.next, stats.losses, stats.duplicates), (from + 3, 1, 0));
}

/// vLLM before 0.15 gives an adapter's number alone: its blocks are not the base model's.
#[test]
fn an_adapter_without_a_name_is_not_taken_for_the_base_model() {
    let mut pair = Pair::new(1, 1);
    let mut event = pair.engine.stored(&[0, 1, 1], 1);
    let lora_id = event.len() - 4;
    assert_eq!(event[lora_id - 1..], [BLOCK as u8, 0xc0, 0xc0, 0xc0, 0xc0]);
    event[lora_id] = 7;
    pair.engine.send(&[event]);
    let (number, payload) = pair.engine.under_way.remove(0);
    pair.arrive(number, &payload);
    let stats = pair.mirror.stats();
    assert_eq!((stats.next, stats.blocks, stats.ignored_blocks), (1, 0, 2));
}

/// What a draft model looks ahead at is in a block's name and not among its tokens: one block, two names.
#[test]
fn a_block_of_two_names_is_held_until_both_go() {
    for (pages, confirmed) in [(1, [2, 2, 2, 1]), (2, [1, 1, 1, 0])] {
        let mut pair = Pair::new(1, pages);
        let path = [0, 1, 1];
        let as_named_by = |pair: &mut Pair, process, removed: bool| {
            pair.engine.process = process;
            let event = if removed { pair.engine.removed(&path) } else { pair.engine.stored(&path, 1) };
            pair.engine.send(&[event]);
            let (number, payload) = pair.engine.under_way.remove(0);
            pair.arrive(number, &payload);
            let mut overlaps = Overlaps::new();
            pair.router.lock().index().lookup(&pair.blocks(&path), pair.now, &mut overlaps);
            overlaps.get(pair.worker.slot()).confirmed
        };
        let steps = [(0, false), (9, false), (0, true), (9, true)];
        let found = steps.map(|(process, removed)| as_named_by(&mut pair, process, removed));
        assert_eq!(found, confirmed, "{pages} of the engine's blocks in one");
        assert_eq!(pair.mirror.stats().blocks, 2, "the first block has two names");
    }
}

#[test]
fn an_engine_that_holds_more_than_it_has_is_not_believed() {
    let mut pair = Pair::new(1, 1);
    let spec = WorkerSpec { name: "w".to_owned(), kv_blocks: Some(100), ..WorkerSpec::default() };
    pair.router.lock().update_worker(spec).unwrap();
    for prompt in 0..1600_u32 {
        pair.engine.prompt(&[0, 2 + (prompt / 40) as u8, 50 + (prompt % 40) as u8], false);
        let (number, payload) = pair.engine.under_way.remove(0);
        pair.arrive(number, &payload);
    }
    let stats = pair.mirror.stats();
    assert!(stats.losses > 0 && stats.blocks <= 1225, "{stats:?}");
    pair.router.lock().index().check().unwrap();
}

#[test]
fn the_model_meets_every_case() {
    let mut runner = TestRunner::deterministic();
    let mut met = [0_u64; 9];
    for _ in 0..200 {
        let steps = prop::collection::vec(step(), 1..60).new_tree(&mut runner).unwrap().current();
        let stats = play(&steps, 1, 1);
        let counts = [
            stats.gaps,
            stats.losses,
            stats.duplicates,
            stats.replayed_batches,
            stats.restarts,
            stats.cleared,
            stats.repeated_blocks,
            stats.removed_blocks,
            stats.orphan_blocks,
        ];
        met.iter_mut().zip(counts).for_each(|(met, count)| *met += count);
    }
    assert!(met.iter().all(|count| *count > 0), "{met:?}");
}
