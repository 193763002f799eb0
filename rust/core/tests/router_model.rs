//! The router against a slow, obvious model: sets of blocks by worker, loads summed from scratch.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use warmroute_core::block::{BlockHash, Namespace};
use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::load::ledger::{Outcome, Reservation};
use warmroute_core::router::{Decision, RouteRequest, Router};
use warmroute_core::select::Reason;
use warmroute_core::time::Time;

const BLOCK: u32 = 4;
const CAPACITY: usize = 24;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A worker as the model sees it.
#[derive(Default)]
struct ModelWorker {
    /// From the least to the most recently used, with the moment of that.
    held: Vec<(BlockHash, Time)>,
    /// Moments at which replies filled blocks, one for each block, ascending.
    replies: Vec<Time>,
    down: bool,
    draining: bool,
    /// Requests in a row that got no reply.
    failures: u32,
    paused_until: Time,
}

impl ModelWorker {
    fn overlap_blocks(&self, blocks: &[BlockHash]) -> usize {
        let held: HashSet<_> = self.held.iter().map(|(block, _)| block).collect();
        blocks.iter().take_while(|block| held.contains(block)).count()
    }

    /// A request ended: three failures in a row pause the worker for a second, each more for twice as long.
    fn ended(&mut self, outcome: Outcome, first_token: bool, now: Time) {
        match outcome {
            Outcome::Unreachable if !first_token => self.failures += 1,
            Outcome::Finished => self.failures = 0,
            _ => return,
        }
        if self.failures >= 3 {
            let seconds = 2_f64.powi(self.failures as i32 - 3).min(30.0);
            self.paused_until = now.after(Duration::from_secs_f64(seconds));
        }
    }

    /// The engine frees a prompt's blocks tail first, so the tail is the first to go.
    fn credit(&mut self, blocks: &[BlockHash], now: Time) {
        let blocks = &blocks[..blocks.len().min(CAPACITY)];
        self.held.retain(|(block, _)| !blocks.contains(block));
        self.held.extend(blocks.iter().rev().map(|block| (*block, now)));
        self.evict();
    }

    /// A reply of `filled` blocks came; the prompt's blocks that are left are the ones used last.
    fn free(&mut self, blocks: &[BlockHash], filled: usize, known: bool, now: Time) {
        if known {
            let left: Vec<_> =
                blocks.iter().filter(|block| self.held.iter().any(|(held, _)| held == *block)).collect();
            self.held.retain(|(block, _)| !left.contains(&block));
            self.held.extend(left.into_iter().rev().map(|block| (*block, now)));
        }
        self.replies.extend(vec![now; filled.min(CAPACITY)]);
        self.evict();
    }

    fn evict(&mut self) {
        while self.held.len() + self.replies.len() > CAPACITY {
            match (self.replies.first(), self.held.first()) {
                (Some(reply), Some((_, used))) if reply > used => drop(self.held.remove(0)),
                (Some(_), _) => drop(self.replies.remove(0)),
                (None, _) => drop(self.held.remove(0)),
            }
        }
    }
}

struct OpenRequest {
    worker: String,
    reservation: Reservation,
    decision: Decision,
    blocks: Vec<BlockHash>,
    first_token: bool,
    output_tokens: u32,
}

#[derive(Default)]
struct Model {
    workers: HashMap<String, ModelWorker>,
    open: Vec<OpenRequest>,
}

impl Model {
    /// Any worker holds the block: the router finds the prompt that ends with it.
    fn knows(&self, block: Option<&BlockHash>) -> bool {
        let mut held = self.workers.values().flat_map(|worker| &worker.held);
        held.any(|(held, _)| Some(held) == block)
    }

    fn active(&self, worker: &str) -> Vec<&OpenRequest> {
        self.open.iter().filter(|request| request.worker == worker).collect()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Add(usize),
    Remove(usize),
    Drain(usize),
    Down(usize),
    Up(usize),
    Route { stem: usize, length: usize, tail: u32 },
    FirstToken(usize),
    Progress(usize, u32),
    Close(usize, Outcome),
}

fn op() -> impl Strategy<Value = Op> {
    let name = 0..NAMES.len();
    prop_oneof![
        4 => name.clone().prop_map(Op::Add),
        1 => name.clone().prop_map(Op::Remove),
        1 => name.clone().prop_map(Op::Drain),
        1 => name.clone().prop_map(Op::Down),
        2 => name.prop_map(Op::Up),
        20 => (0_usize..3, 1_usize..60, 0_u32..4).prop_map(|(stem, length, tail)| Op::Route { stem, length, tail }),
        6 => any::<usize>().prop_map(Op::FirstToken),
        4 => (any::<usize>(), 0_u32..30).prop_map(|(i, n)| Op::Progress(i, n)),
        10 => (any::<usize>(), prop_oneof![Just(Outcome::Finished), Just(Outcome::Failed), Just(Outcome::Unreachable)])
            .prop_map(|(i, outcome)| Op::Close(i, outcome)),
    ]
}

/// A prompt that shares a stem with others and ends in its own way.
fn prompt(stem: usize, length: usize, tail: u32) -> Vec<u8> {
    let ids =
        (0..length as u32).map(|i| 1000 * stem as u32 + i).chain((0..tail).map(|i| 90_000 + 7 * tail + i));
    ids.flat_map(u32::to_le_bytes).collect()
}

fn spec(name: &str) -> WorkerSpec {
    WorkerSpec { name: name.to_owned(), kv_blocks: Some(CAPACITY as u32), ..WorkerSpec::default() }
}

struct Run {
    router: Router,
    model: Model,
    now: Time,
    /// The latest moment that the router was told.
    told: Time,
    routed: u64,
}

impl Run {
    fn new() -> Run {
        let config = RouterConfig { block_size: BLOCK, ..RouterConfig::default() };
        Run {
            router: Router::new(config).unwrap(),
            model: Model::default(),
            now: Time::ZERO,
            told: Time::ZERO,
            routed: 0,
        }
    }

    fn step(&mut self, op: Op) {
        self.now = self.now.after(Duration::from_millis(3));
        match op {
            Op::Add(i) => {
                let added = self.router.add_worker(spec(NAMES[i])).is_ok();
                assert_eq!(added, !self.model.workers.contains_key(NAMES[i]));
                self.model.workers.entry(NAMES[i].to_owned()).or_default();
            }
            Op::Remove(i) => {
                let removed = self.router.remove_worker(NAMES[i]).is_ok();
                assert_eq!(removed, self.model.workers.remove(NAMES[i]).is_some());
                // What is open on it belongs to nobody: a later worker of the same name starts empty.
                for request in self.model.open.iter_mut().filter(|request| request.worker == NAMES[i]) {
                    request.worker.clear();
                }
            }
            Op::Drain(i) => {
                if let Some(worker) = self.model.workers.get_mut(NAMES[i]) {
                    worker.draining = true;
                    self.router.drain_worker(NAMES[i]).unwrap();
                }
            }
            Op::Down(i) | Op::Up(i) => {
                if let Some(worker) = self.model.workers.get_mut(NAMES[i]) {
                    worker.down = matches!(op, Op::Down(_));
                    if worker.down {
                        worker.held.clear();
                        worker.replies.clear();
                    }
                    self.router.set_ready(NAMES[i], !worker.down).unwrap();
                }
            }
            Op::Route { stem, length, tail } => self.route(&prompt(stem, length, tail)),
            Op::FirstToken(i) => {
                if let Some(request) = pick(&mut self.model.open, i) {
                    self.router.first_token(&request.reservation, self.now);
                    self.told = self.now;
                    if !request.first_token
                        && let Some(worker) = self.model.workers.get_mut(&request.worker)
                    {
                        worker.failures = 0;
                    }
                    request.first_token = true;
                }
            }
            Op::Progress(i, output_tokens) => {
                if let Some(request) = pick(&mut self.model.open, i) {
                    self.router.progress(&request.reservation, output_tokens);
                    request.output_tokens = request.output_tokens.max(output_tokens);
                }
            }
            Op::Close(i, outcome) => self.close(i, outcome),
        }
    }

    fn close(&mut self, i: usize, outcome: Outcome) {
        if self.model.open.is_empty() {
            return;
        }
        let request = self.model.open.swap_remove(i % self.model.open.len());
        let known = self.model.knows(request.blocks.last());
        if let Some(worker) = self.model.workers.get_mut(&request.worker) {
            worker.ended(outcome, request.first_token, self.told);
            if outcome == Outcome::Finished && !request.blocks.is_empty() {
                let prompt = request.decision.prompt_tokens;
                let computed = prompt + request.output_tokens.saturating_sub(1);
                let filled = computed / BLOCK - prompt / BLOCK;
                worker.free(&request.blocks, filled as usize, known, self.told);
            }
        }
        self.router.close(request.reservation, "", outcome);
    }

    fn route(&mut self, ids: &[u8]) {
        let mut blocks = Vec::new();
        self.router.hasher().hash_ids(&Namespace::default(), ids, &mut blocks);
        let prompt_tokens = (ids.len() / 4) as u32;
        let request = RouteRequest {
            blocks: &blocks,
            prompt_tokens,
            max_output_tokens: Some(10),
            ..RouteRequest::default()
        };
        self.told = self.now;
        self.check_explanation(&request);
        let names: Vec<_> = self.model.workers.keys().cloned().collect();
        let eligible = names.iter().any(|name| !self.refused(name));
        let Ok((decision, reservation)) = self.router.route(&request, self.now, self.routed) else {
            assert!(!eligible, "a ready worker was refused");
            return;
        };
        self.routed += 1;
        let name = decision.worker.spec.name.clone();
        self.model.workers.get_mut(&name).unwrap().credit(&blocks, self.now);
        let request =
            OpenRequest { worker: name, reservation, decision, blocks, first_token: false, output_tokens: 0 };
        self.model.open.push(request);
    }

    fn refused(&self, name: &str) -> bool {
        let worker = &self.model.workers[name];
        let busy = !self.model.active(name).is_empty();
        let failing = worker.failures >= 3 && (self.told < worker.paused_until || busy);
        worker.down || worker.draining || failing
    }

    /// Every worker's overlap and load as the model has them, and a decision that the costs bear out.
    fn check_explanation(&mut self, request: &RouteRequest<'_>) {
        let explanation = self.router.explain(request, self.now, self.routed);
        assert_eq!(explanation.candidates.len(), self.model.workers.len());
        for view in &explanation.candidates {
            let name = view.worker.spec.name.as_str();
            let worker = &self.model.workers[name];
            let usable = request.prompt_tokens.saturating_sub(1) / BLOCK * BLOCK;
            let overlap = (worker.overlap_blocks(request.blocks) as u32 * BLOCK).min(usable);
            assert_eq!(view.overlap_tokens, overlap, "overlap on {name}");
            assert_eq!(view.refusal.is_some(), self.refused(name));
            let active = self.model.active(name);
            assert_eq!(view.requests as usize, active.len());
            let context =
                active.iter().map(|r| u64::from(r.decision.prompt_tokens + r.output_tokens)).sum::<u64>();
            assert_eq!(view.context_tokens, context);
            let waiting =
                active.iter().filter(|r| !r.first_token).map(|r| r.decision.cost.prefill).sum::<f64>();
            assert!(view.cost.wait <= waiting * 2.0 + 1e-6 && view.cost.wait >= waiting * 0.5 - 1e-6);
        }
        let Ok(decision) = &explanation.decision else { return };
        let chosen = explanation.candidates.iter().find(|v| v.worker.id == decision.worker.id).unwrap();
        let open = || explanation.candidates.iter().filter(|view| view.refusal.is_none() && !view.full);
        let longest = open().map(|view| view.overlap_tokens).max().unwrap_or(0);
        match decision.reason {
            Reason::Warm => assert!(chosen.overlap_tokens * 2 >= request.prompt_tokens),
            Reason::Cold => assert!(longest * 2 < request.prompt_tokens || longest == 0),
            Reason::Spill => assert!(longest * 2 >= request.prompt_tokens),
            Reason::Balance => panic!("priced affinity always asks who holds what"),
        }
    }
}

fn pick<T>(items: &mut [T], i: usize) -> Option<&mut T> {
    if items.is_empty() { None } else { items.get_mut(i % items.len()) }
}

proptest! {
    // 128 cases of up to 200 operations: over 10,000 operations a run.
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn the_router_equals_the_model(ops in prop::collection::vec(op(), 100..200)) {
        let mut run = Run::new();
        run.step(Op::Add(0));
        for op in ops {
            run.step(op);
            prop_assert_eq!(run.router.ledger().open(), run.model.open.len());
        }
        for request in std::mem::take(&mut run.model.open) {
            run.router.close(request.reservation, "", Outcome::Finished);
        }
        prop_assert!(run.router.stats().workers.iter().all(|w| w.requests == 0 && w.wait_seconds == 0.0));
    }
}
