//! Prompts that are matched as text, on a worker whose events are followed: no event names them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use warmroute_core::block::{BYTES_PER_TOKEN, Namespace, Units};
use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::load::ledger::Outcome;
use warmroute_core::mirror::{Mirror, Status};
use warmroute_core::router::{Lease, Loss, RouteRequest, SharedRouter};
use warmroute_core::time::Time;

const BLOCK: usize = 4;

/// A worker with sixteen blocks; its mirror lives as long as its events are followed.
struct Bench {
    router: SharedRouter,
    mirror: Option<Mirror>,
    now: Time,
}

impl Bench {
    fn new(followed: bool) -> Bench {
        let config = RouterConfig { block_size: BLOCK as u32, ..RouterConfig::default() };
        #[expect(clippy::disallowed_methods, reason = "an origin like any other: no time is told")]
        let router = SharedRouter::new(config, Instant::now()).unwrap();
        let spec = WorkerSpec { name: "w".to_owned(), kv_blocks: Some(16), ..WorkerSpec::default() };
        let worker = router.lock().add_worker(spec).unwrap();
        let mirror = followed.then(|| {
            let mut mirror = Mirror::new(router.clone(), worker, 1);
            let empty = [&[0x92, 0xcb][..], &[0; 8], &[0x90]].concat();
            assert_eq!(mirror.take(0, &empty, Time::ZERO), Status::Live);
            mirror
        });
        Bench { router, mirror, now: Time::ZERO }
    }

    fn route(&mut self, units: Units, prompt: u8, blocks: usize) -> Lease {
        self.now = self.now.after(Duration::from_secs(10));
        let space = Namespace { units, ..Namespace::default() };
        let mut hashes = Vec::new();
        let text = vec![prompt; blocks * BLOCK * BYTES_PER_TOKEN];
        self.router.hasher().hash_text(&space, &[&text], &mut hashes);
        let prompt_tokens = (blocks * BLOCK) as u32 + 1;
        let request = RouteRequest { blocks: &hashes, prompt_tokens, units, ..RouteRequest::default() };
        self.router.route(&request, self.now, 0).unwrap()
    }

    /// The event for the blocks of a prompt of token ids.
    fn stored(&mut self, prompt: u8, blocks: usize) {
        let mut payload =
            [&[0x92, 0xcb][..], &1_f64.to_be_bytes(), &[0x91, 0x96, 0xab], b"BlockStored"].concat();
        payload.push(0x90 | blocks as u8);
        payload.extend(1..=blocks as u8);
        payload.extend([0xc0, 0xdc, 0, (blocks * BLOCK) as u8]);
        payload.extend([0xce, prompt, prompt, prompt, prompt].repeat(blocks * BLOCK));
        payload.extend([BLOCK as u8, 0xc0]);
        assert_eq!(self.mirror.as_mut().unwrap().take(1, &payload, self.now), Status::Live);
        assert_eq!(self.router.lock().stats().workers[0].confirmed_blocks, blocks as u64);
    }

    /// Serves a prompt to its end; gives the overlap that was expected.
    fn serve(&mut self, units: Units, prompt: u8, blocks: usize, output_tokens: u32) -> u32 {
        let mut lease = self.route(units, prompt, blocks);
        lease.first_token(self.now);
        lease.progress(output_tokens);
        lease.close(Outcome::Finished);
        lease.decision().overlap_tokens
    }
}

#[test]
fn they_live_in_the_same_model_of_the_pool_as_without_events() {
    for followed in [false, true] {
        let mut bench = Bench::new(followed);
        assert_eq!(bench.serve(Units::Bytes, 1, 8, 0), 0);
        assert_eq!(bench.serve(Units::Bytes, 2, 6, 0), 0);
        // Used again at its end, so that the other one is the older one; the reply fills six blocks.
        assert_eq!(bench.serve(Units::Bytes, 1, 8, 24), 32);
        let left = bench.serve(Units::Bytes, 2, 6, 0);
        assert_eq!(left, 8, "followed: {followed}");
    }
}

#[test]
fn what_events_name_takes_room_among_them() {
    let mut bench = Bench::new(true);
    bench.serve(Units::Bytes, 1, 8, 0);
    let mut lease = bench.route(Units::Tokens, 2, 10);
    bench.stored(2, 10);
    lease.progress(9);
    lease.close(Outcome::Finished);
    assert_eq!(bench.route(Units::Bytes, 1, 8).decision().overlap_tokens, 16, "12 blocks of 16 are taken");
}

#[test]
fn a_report_corrects_them() {
    let mut bench = Bench::new(true);
    bench.serve(Units::Bytes, 1, 6, 0);
    bench.serve(Units::Bytes, 2, 6, 0);
    let lease = bench.route(Units::Bytes, 2, 6);
    assert_eq!(lease.decision().overlap_tokens, 24);
    lease.cached_tokens(0);
    // The engine evicts what was used before that, too.
    assert_eq!(bench.route(Units::Bytes, 1, 6).decision().overlap_tokens, 0);
    let truth = &bench.router.lock().stats().workers[0].truth;
    assert_eq!(truth.lost_tokens[Loss::Evicted as usize], 24);
}

#[test]
fn a_report_in_other_tokens_says_nothing() {
    for followed in [false, true] {
        let mut bench = Bench::new(followed);
        bench.serve(Units::Bytes, 1, 6, 0);
        bench.serve(Units::Bytes, 2, 6, 0);
        // The worker's tokens are three times as long; the few of a short text are in no whole block.
        bench.route(Units::Bytes, 2, 6).cached_tokens(8);
        bench.route(Units::Bytes, 2, 4).cached_tokens(0);
        assert_eq!(bench.route(Units::Bytes, 1, 6).decision().overlap_tokens, 24, "followed: {followed}");
        let truth = &bench.router.lock().stats().workers[0].truth;
        assert_eq!((truth.errors.iter().sum::<u64>(), truth.lost_tokens.iter().sum::<u64>()), (0, 0));
    }
}
