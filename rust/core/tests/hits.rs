//! A worker without events, whose replies say nothing: its own counters correct what is predicted of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use warmroute_core::block::{BlockHash, Namespace};
use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::load::ledger::Outcome;
use warmroute_core::router::{Decision, Loss, RouteRequest, Router};
use warmroute_core::time::Time;

const BLOCK: u32 = 4;
const BLOCKS: u32 = 10;
const TOKENS: u64 = (BLOCK * BLOCKS) as u64;

/// A router with one worker, and the worker's counters.
struct Bench {
    router: Router,
    now: Time,
    queries: u64,
    hits: u64,
}

impl Bench {
    fn new() -> Bench {
        let mut router = Router::new(RouterConfig { block_size: BLOCK, ..RouterConfig::default() }).unwrap();
        let spec = WorkerSpec { name: "w".to_owned(), kv_blocks: Some(1000), ..WorkerSpec::default() };
        router.add_worker(spec).unwrap();
        Bench { router, now: Time::ZERO, queries: 0, hits: 0 }
    }

    fn blocks(&self, prompt: u32) -> Vec<BlockHash> {
        let ids: Vec<u8> = (0..BLOCK * BLOCKS).flat_map(|id| (prompt * 1000 + id).to_le_bytes()).collect();
        let mut blocks = Vec::new();
        self.router.hasher().hash_ids(&Namespace::default(), &ids, &mut blocks);
        blocks
    }

    /// Serves a prompt of which the worker has `cached` tokens.
    fn serve(&mut self, prompt: u32, cached: u64) -> Decision {
        self.now = self.now.after(Duration::from_millis(10));
        let blocks = self.blocks(prompt);
        let prompt_tokens = TOKENS as u32 + 1;
        let request = RouteRequest { blocks: &blocks, prompt_tokens, ..RouteRequest::default() };
        let (decision, reservation) = self.router.route(&request, self.now, 0).unwrap();
        self.router.first_token(&reservation, self.now);
        self.router.close(reservation, "", Outcome::Finished);
        self.queries += TOKENS + 1;
        self.hits += cached;
        decision
    }

    /// Reads the counters if they are wanted; says whether they were.
    fn read(&mut self) -> bool {
        self.now = self.now.after(Duration::from_millis(10));
        let wanted = self.router.wants_hits("w").unwrap();
        self.router.observe_hits("w", self.queries, self.hits, self.now).unwrap();
        wanted
    }

    fn predicted(&self) -> u64 {
        self.router.stats().workers[0].predicted_blocks
    }

    fn lost(&self) -> u64 {
        self.router.stats().workers[0].truth.lost_tokens[Loss::Evicted as usize]
    }
}

/// Twenty prompts are held, and the comparison has begun.
fn begun() -> Bench {
    let mut bench = Bench::new();
    assert!(!bench.read());
    for prompt in 0..20 {
        bench.serve(prompt, 0);
    }
    assert!(bench.read() && !bench.read());
    bench
}

#[test]
fn hits_as_expected_change_nothing() {
    let mut bench = begun();
    (0..12).for_each(|prompt| drop(bench.serve(prompt, TOKENS)));
    assert!(bench.read());
    assert_eq!((bench.predicted(), bench.lost()), (200, 0));
}

#[test]
fn far_fewer_hits_take_what_was_used_before_and_then_everything() {
    let mut bench = begun();
    (0..12).for_each(|prompt| drop(bench.serve(prompt, 0)));
    assert!(bench.read());
    assert_eq!((bench.predicted(), bench.lost()), (120, 12 * TOKENS));
    assert!(!bench.router.stats().workers[0].truth.is_suspect());
    (0..12).for_each(|prompt| drop(bench.serve(prompt, 0)));
    assert!(bench.read());
    assert_eq!(bench.predicted(), 0);
    assert!(bench.router.stats().workers[0].truth.is_suspect());
    (0..24).for_each(|prompt| drop(bench.serve(prompt % 12, if prompt < 12 { 0 } else { TOKENS })));
    assert!(bench.read());
    assert!(!bench.router.stats().workers[0].truth.is_suspect());
    assert_eq!(bench.predicted(), 120);
}

#[test]
fn replies_that_say_what_was_cached_make_the_counters_needless() {
    let mut bench = begun();
    for prompt in 0..12 {
        let decision = bench.serve(prompt, 0);
        bench.router.cached_tokens(&decision, TOKENS as u32);
    }
    assert!(!bench.read());
    assert_eq!((bench.predicted(), bench.lost()), (200, 0));
}

#[test]
fn counters_that_begin_again_or_count_something_else_judge_nothing() {
    let mut bench = begun();
    (bench.queries, bench.hits) = (0, 0);
    (0..12).for_each(|prompt| drop(bench.serve(prompt, 0)));
    assert!(bench.read());
    let mut off = begun();
    (0..12).for_each(|prompt| drop(off.serve(prompt, 0)));
    off.queries -= 11 * TOKENS;
    assert!(off.read());
    for bench in [bench, off] {
        assert_eq!((bench.predicted(), bench.lost()), (200, 0));
    }
}
