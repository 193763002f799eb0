//! Overlaps from events that are lost, doubled and late, against those from predictions alone and the engine's truth.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Instant;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use warmroute_core::block::{BlockHash, Namespace};
use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::ids::WorkerId;
use warmroute_core::load::ledger::Outcome;
use warmroute_core::mirror::{Mirror, MirrorStats, Status};
use warmroute_core::prefix::Overlaps;
use warmroute_core::router::{RouteRequest, SharedRouter};
use warmroute_core::time::Time;

#[path = "support/engine.rs"]
#[expect(dead_code, reason = "another test uses the rest")]
mod engine;

use engine::{BLOCK, Engine, Path, SALTS, every_path, tokens};

#[derive(Clone, Debug)]
enum Step {
    /// A request, routed and served; what became of its batch of events.
    Request {
        path: Path,
        fate: u8,
    },
    /// The engine evicts a block; what became of the batch.
    Evict {
        at: Path,
        fate: u8,
    },
    Clear {
        fate: u8,
    },
    /// Another process takes the worker's place, and nobody tells.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let path = || {
        (0_u8..2, prop::collection::vec(0_u8..2, 1..6)).prop_map(|(salt, rest)| [vec![salt], rest].concat())
    };
    let fate = || 0_u8..10;
    prop_oneof![
        12 => (path(), fate()).prop_map(|(path, fate)| Step::Request { path, fate }),
        12 => (path(), fate()).prop_map(|(at, fate)| Step::Evict { at, fate }),
        1 => fate().prop_map(|fate| Step::Clear { fate }),
        1 => Just(Step::Restart),
    ]
}

/// A router with one worker.
struct Side {
    router: SharedRouter,
    worker: WorkerId,
}

impl Side {
    fn new() -> Side {
        let config = RouterConfig { block_size: BLOCK as u32, ..RouterConfig::default() };
        #[expect(clippy::disallowed_methods, reason = "an origin like any other: no time is told")]
        let router = SharedRouter::new(config, Instant::now()).unwrap();
        let spec = WorkerSpec { name: "w".to_owned(), kv_blocks: Some(1000), ..WorkerSpec::default() };
        let worker = router.lock().add_worker(spec).unwrap();
        Side { router, worker }
    }

    fn blocks(&self, path: &[u8]) -> Vec<BlockHash> {
        let space = Namespace { salt: SALTS[usize::from(path[0])], ..Namespace::default() };
        let ids: Vec<u8> =
            path[1..].iter().flat_map(|letter| tokens(*letter)).flat_map(u32::to_le_bytes).collect();
        let mut blocks = Vec::new();
        self.router.hasher().hash_ids(&space, &ids, &mut blocks);
        blocks
    }

    fn route(&self, path: &[u8]) {
        let blocks = self.blocks(path);
        let prompt_tokens = (blocks.len() * BLOCK + 1) as u32;
        let request = RouteRequest { blocks: &blocks, prompt_tokens, ..RouteRequest::default() };
        self.router.route(&request, Time::ZERO, 0).unwrap().close(Outcome::Finished);
    }

    /// The blocks that a decision counts on.
    fn overlap(&self, path: &[u8]) -> usize {
        let mut overlaps = Overlaps::new();
        self.router.lock().index().lookup(&self.blocks(path), Time::ZERO, &mut overlaps);
        overlaps.get(self.worker.slot()).blocks as usize
    }
}

struct Sides {
    engine: Engine,
    events: Side,
    mirror: Mirror,
    alone: Side,
    /// Batches that come after the next one.
    late: Vec<(u64, Vec<u8>)>,
}

impl Sides {
    fn new() -> Sides {
        let events = Side::new();
        let mirror = Mirror::new(events.router.clone(), events.worker, 3);
        Sides { engine: Engine::default(), events, mirror, alone: Side::new(), late: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Request { path, fate } => {
                // What is late is late by less than a request.
                self.arrive_late();
                self.events.route(path);
                self.alone.route(path);
                self.engine.prompt(path, false);
                self.deliver(*fate);
            }
            Step::Evict { at, fate } => {
                self.engine.evict(at);
                self.deliver(*fate);
            }
            Step::Clear { fate } => {
                self.engine.clear();
                self.deliver(*fate);
            }
            Step::Restart => {
                self.late.clear();
                self.engine.restart();
            }
        }
    }

    fn deliver(&mut self, fate: u8) {
        for (number, payload) in std::mem::take(&mut self.engine.under_way) {
            match fate {
                0 => continue,
                1 => {
                    self.late.push((number, payload));
                    continue;
                }
                2 => self.arrive(number, &payload),
                _ => {}
            }
            self.arrive(number, &payload);
            self.arrive_late();
        }
    }

    fn arrive_late(&mut self) {
        for (number, payload) in std::mem::take(&mut self.late) {
            self.arrive(number, &payload);
        }
    }

    /// A batch; what is missing before it is asked for, and half of the time the engine has it.
    fn arrive(&mut self, number: u64, payload: &[u8]) {
        let mut status = self.mirror.take(number, payload, Time::ZERO);
        for _ in 0..6 {
            let Status::Behind(from) = status else { return };
            status = if number.is_multiple_of(2) {
                self.mirror.replay_failed(from, Time::ZERO)
            } else {
                for (number, payload) in self.engine.sent.iter().filter(|(number, _)| *number >= from) {
                    self.mirror.replayed(from, *number, payload, Time::ZERO);
                }
                self.mirror.replay_ended(from, Time::ZERO)
            };
        }
        panic!("{status:?}");
    }

    /// Blocks by which overlaps are off, with events and by predictions alone.
    ///
    /// No prompt counts for more than predictions alone or the engine say. It may count for less: after a loss, where
    /// the engine has a copy that is not known.
    fn off(&self) -> [usize; 2] {
        let mut off = [0; 2];
        for path in every_path() {
            let (events, alone) = (self.events.overlap(&path), self.alone.overlap(&path));
            let held = self.engine.overlap(&path);
            assert!(events <= alone.max(held), "{path:?}: {events} by events, {alone} alone, {held} held");
            off[0] += events.abs_diff(held);
            off[1] += alone.abs_diff(held);
        }
        off
    }
}

/// Plays the steps; how far off overlaps were in all, with events and by predictions alone.
fn play(steps: &[Step]) -> ([usize; 2], MirrorStats) {
    let (mut sides, mut off) = (Sides::new(), [0; 2]);
    for step in steps {
        sides.step(step);
        let now = sides.off();
        off = [off[0] + now[0], off[1] + now[1]];
    }
    (off, sides.mirror.stats())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_counts_for_more_than_predicted_or_held(steps in prop::collection::vec(step(), 1..80)) {
        play(&steps);
    }
}

/// Single streams may end worse, by a copy that was not known; one in a hundred is far above what was seen.
#[test]
fn overlaps_are_closer_to_the_truth_than_by_predictions_alone() {
    let mut runner = TestRunner::deterministic();
    let (mut off, mut worse, mut met) = ([0; 2], 0, [0; 4]);
    for _ in 0..300 {
        let steps = prop::collection::vec(step(), 40..120).new_tree(&mut runner).unwrap().current();
        let (now, stats) = play(&steps);
        off = [off[0] + now[0], off[1] + now[1]];
        worse += u32::from(now[0] > now[1]);
        let counts = [stats.losses, stats.duplicates, stats.replayed_batches, stats.restarts];
        met.iter_mut().zip(counts).for_each(|(met, count)| *met += count);
    }
    assert!(met.iter().all(|count| *count > 100), "{met:?}");
    assert!(off[0] * 4 < off[1] && worse <= 3, "{off:?} blocks off, {worse} streams worse");
}
