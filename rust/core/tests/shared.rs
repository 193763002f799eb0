//! One router, several threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a router for threads has an origin")]

use std::thread;
use std::time::Instant;

use warmroute_core::block::BlockHash;
use warmroute_core::config::RouterConfig;
use warmroute_core::error::RouteError;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::load::ledger::Outcome;
use warmroute_core::router::{RouteRequest, SharedRouter};
use warmroute_core::time::Time;

const BLOCKS: u64 = 500_000;

/// A router with one worker that holds a prompt of many blocks, and the prompt.
fn holding() -> (SharedRouter, Vec<BlockHash>) {
    let shared = SharedRouter::new(RouterConfig::default(), Instant::now()).unwrap();
    let spec = WorkerSpec { name: "w".to_owned(), kv_blocks: Some(1 << 20), ..WorkerSpec::default() };
    let blocks: Vec<_> = (1..=BLOCKS).map(BlockHash).collect();
    let mut router = shared.lock();
    router.add_worker(spec).unwrap();
    let prompt_tokens = BLOCKS as u32 * 16 + 1;
    let request = RouteRequest { blocks: &blocks, prompt_tokens, ..RouteRequest::default() };
    let (_, reservation) = router.route(&request, Time::ZERO, 0).unwrap();
    router.close(reservation, "", Outcome::Finished);
    assert_eq!(router.stats().workers[0].predicted_blocks, BLOCKS);
    drop(router);
    (shared, blocks)
}

/// What it holds is forgotten a few blocks at a time, and other threads decide meanwhile.
#[test]
fn a_worker_that_goes_down_gets_nothing_while_its_blocks_are_forgotten() {
    let (shared, blocks) = holding();
    let request = RouteRequest { blocks: &blocks[..100], prompt_tokens: 1_601, ..RouteRequest::default() };
    thread::scope(|scope| {
        let down = scope.spawn(|| shared.set_ready("w", false));
        loop {
            let mut router = shared.lock();
            let held = router.stats().workers[0].predicted_blocks;
            if held < BLOCKS {
                let refused = router.decide(&request, Time::ZERO, 0).map(drop);
                assert_eq!(refused, Err(RouteError::NoEligibleWorker), "{held} blocks are left");
            }
            if held == 0 {
                break;
            }
        }
        down.join().unwrap().unwrap();
    });
    assert!(shared.remove_worker("w").is_ok() && shared.remove_worker("w").is_err());
}
