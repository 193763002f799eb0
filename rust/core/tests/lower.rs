//! What a worker has put away: from the events of vLLM's offloading to the decision.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Instant;

use warmroute_core::block::Namespace;
use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::mirror::{Mirror, Status};
use warmroute_core::router::{Explanation, Lease, Loss, RouteRequest, SharedRouter};
use warmroute_core::select::Reason;
use warmroute_core::time::Time;

const BLOCK: u8 = 4;

/// Two workers, of which the first one's events are followed.
struct Bench {
    router: SharedRouter,
    mirror: Mirror,
    batches: u64,
}

impl Bench {
    fn new() -> Bench {
        let config = RouterConfig { block_size: u32::from(BLOCK), ..RouterConfig::default() };
        #[expect(clippy::disallowed_methods, reason = "an origin like any other: no time is told")]
        let router = SharedRouter::new(config, Instant::now()).unwrap();
        let worker = |name: &str| WorkerSpec { name: name.to_owned(), ..WorkerSpec::default() };
        let first = router.lock().add_worker(worker("first")).unwrap();
        router.lock().add_worker(worker("second")).unwrap();
        Bench { mirror: Mirror::new(router.clone(), first, 1), router, batches: 0 }
    }

    fn send(&mut self, events: &[Vec<u8>]) {
        let mut payload = vec![0x92, 0xcb];
        payload.extend((self.batches as f64).to_be_bytes());
        payload.push(0x90 | events.len() as u8);
        events.iter().for_each(|event| payload.extend(event));
        assert_eq!(self.mirror.take(self.batches, &payload, Time::ZERO), Status::Live);
        self.batches += 1;
    }

    fn ask<T>(&self, blocks: u8, ask: impl FnOnce(&RouteRequest<'_>) -> T) -> T {
        let ids: Vec<u8> = (0..blocks * BLOCK).flat_map(|id| u32::from(id).to_le_bytes()).collect();
        let mut hashes = Vec::new();
        self.router.hasher().hash_ids(&Namespace::default(), &ids, &mut hashes);
        let prompt_tokens = u32::from(blocks * BLOCK) + 1;
        ask(&RouteRequest { blocks: &hashes, prompt_tokens, ..RouteRequest::default() })
    }

    fn explain(&self, blocks: u8) -> Explanation {
        self.ask(blocks, |request| self.router.lock().explain(request, Time::ZERO, 0))
    }

    fn route(&self, blocks: u8) -> Lease {
        self.ask(blocks, |request| self.router.route(request, Time::ZERO, 0).unwrap())
    }

    /// Overlap and lower tokens of the first worker.
    fn held(&self, blocks: u8) -> (u32, u32) {
        let candidate = &self.explain(blocks).candidates[0];
        (candidate.overlap_tokens, candidate.lower_tokens)
    }
}

/// Blocks `0..blocks` of the prompt, on the device.
fn stored(blocks: u8) -> Vec<u8> {
    let mut event = [&[0x96, 0xab][..], b"BlockStored", &[0x90 | blocks]].concat();
    event.extend((1..=blocks).map(|block| 100 + block));
    event.extend([0xc0, 0xdc, 0, blocks * BLOCK]);
    event.extend(0..blocks * BLOCK);
    event.extend([BLOCK, 0xc0]);
    event
}

/// As vLLM's offloading says it: no tokens, no parent, no size.
fn put_away(block: u8) -> Vec<u8> {
    [&[0x97, 0xab][..], b"BlockStored", &[0x91, 101 + block, 0xc0, 0x90, 0, 0xc0], b"\xa3CPU"].concat()
}

fn removed(block: u8, medium: &[u8]) -> Vec<u8> {
    [&[0x93, 0xac][..], b"BlockRemoved", &[0x91, 101 + block, 0xa0 | medium.len() as u8], medium].concat()
}

#[test]
fn blocks_that_are_put_away_are_priced_where_the_device_ends() {
    let mut bench = Bench::new();
    bench.send(&[stored(6)]);
    // All but the first block are put away, and the last three leave the device.
    bench.send(&(1..6).map(put_away).collect::<Vec<_>>());
    bench.send(&[removed(5, b"GPU"), removed(4, b"GPU"), removed(3, b"GPU")]);
    assert_eq!(bench.held(6), (12, 12));
    let explanation = bench.explain(6);
    let [first, second] = &explanation.candidates[..] else { panic!("two workers") };
    assert!(first.cost.transfer > 0.0 && first.cost.total() < second.cost.total());
    let decision = explanation.decision.unwrap();
    assert_eq!((decision.worker.spec.name.as_str(), decision.reason), ("first", Reason::Warm));
    assert_eq!((decision.overlap_tokens, decision.lower_tokens), (12, 12));

    bench.send(&[removed(4, b"CPU")]);
    assert_eq!(bench.held(6), (12, 4));
    let stats = bench.router.lock().stats();
    assert_eq!((stats.workers[0].lower_blocks, stats.index.lower), (4, 4));
    assert_eq!(bench.mirror.stats().faults, 0);
}

#[test]
fn a_worker_that_leaves_takes_its_lower_tier_along() {
    let mut bench = Bench::new();
    bench.send(&[stored(4), put_away(0), put_away(1)]);
    bench.router.lock().remove_worker("first").unwrap();
    let stats = bench.router.lock().stats();
    assert_eq!((stats.index.lower, stats.index.blocks), (0, 0));
    bench.router.lock().index().check().unwrap();
}

#[test]
fn what_a_report_shows_not_to_be_put_away_is_dropped() {
    let mut bench = Bench::new();
    bench.send(&[stored(6)]);
    bench.send(&(0..6).map(put_away).collect::<Vec<_>>());
    bench.send(&(1..6).rev().map(|block| removed(block, b"GPU")).collect::<Vec<_>>());
    let lease = bench.route(6);
    assert_eq!((lease.decision().overlap_tokens, lease.decision().lower_tokens), (4, 20));
    // It had the block on the device and two of those that were put away.
    lease.cached_tokens(12);
    let router = bench.router.lock();
    assert_eq!(router.stats().workers[0].lower_blocks, 3);
    assert_eq!(router.stats().workers[0].truth.lost_tokens[Loss::Evicted as usize], 12);
}
