//! What is forgotten of a worker, seen from the lock: how much each piece takes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::shared::FORGOTTEN_AT_ONCE;
use super::{RouteRequest, Router, WorkerStats};
use crate::block::BlockHash;
use crate::config::RouterConfig;
use crate::event::Tier;
use crate::fleet::WorkerSpec;
use crate::ids::WorkerId;
use crate::load::ledger::Outcome;
use crate::prefix::Forget;
use crate::time::Time;

const BLOCKS: u64 = 4_000;
/// One block has no room once all are in doubt, for every four that have.
const CAPACITY: u64 = BLOCKS * 2 * 4 / 5;

/// A worker that holds as many blocks confirmed as predicted, and as many in a lower tier.
fn holding() -> (Router, WorkerId) {
    let mut router = Router::new(RouterConfig::default()).unwrap();
    let spec = WorkerSpec { name: "w".to_owned(), kv_blocks: Some(CAPACITY as u32), ..WorkerSpec::default() };
    let worker = router.add_worker(spec).unwrap();
    let blocks: Vec<_> = (1..=2 * BLOCKS).map(BlockHash).collect();
    let (known, predicted) = blocks.split_at(BLOCKS as usize);
    for prompt in predicted.chunks(40) {
        send(&mut router, prompt);
    }
    for prompt in known.chunks(40) {
        for tier in [Tier::Device, Tier::Lower] {
            router.confirm(worker, tier, None, prompt, Time::ZERO).unwrap();
        }
    }
    assert_eq!(held(&router), (BLOCKS, BLOCKS, BLOCKS));
    (router, worker)
}

fn send(router: &mut Router, blocks: &[BlockHash]) {
    let prompt_tokens = blocks.len() as u32 * 16 + 1;
    let request = RouteRequest { blocks, prompt_tokens, ..RouteRequest::default() };
    let (_, reservation) = router.route(&request, Time::ZERO, 0).unwrap();
    router.close(reservation, "", Outcome::Cancelled);
}

/// Confirmed, predicted and in lower tiers.
fn held(router: &Router) -> (u64, u64, u64) {
    let WorkerStats { confirmed_blocks, predicted_blocks, lower_blocks, .. } = router.stats().workers[0];
    (confirmed_blocks, predicted_blocks, lower_blocks)
}

/// Forgets in pieces with a new prompt of four blocks after each; gives what is held then, and the prompts.
fn forget(what: Forget) -> ((u64, u64, u64), u64) {
    let (mut router, worker) = holding();
    let mut forgetting = router.forget(worker, what, Time::ZERO).unwrap();
    let mut pieces = 0;
    loop {
        let sum = |(confirmed, predicted, lower): (u64, u64, u64)| confirmed + predicted + lower;
        let before = sum(held(&router));
        let done = router.forget_some(worker, &mut forgetting, FORGOTTEN_AT_ONCE).unwrap();
        assert!(before - sum(held(&router)) <= FORGOTTEN_AT_ONCE as u64, "too many blocks under one lock");
        if done {
            router.index().check().unwrap();
            return (held(&router), pieces);
        }
        let new: Vec<_> = (0..4).map(|block| BlockHash(1_000_000 + pieces * 4 + block)).collect();
        send(&mut router, &new);
        pieces += 1;
        assert!(pieces < 4 * BLOCKS, "it does not end");
    }
}

/// What a cache of another size has no room for goes in pieces, too, though prompts come meanwhile.
#[test]
fn a_worker_that_turns_out_to_be_smaller_is_fitted_in_pieces() {
    let (mut router, _) = holding();
    let spec = WorkerSpec { name: "w".to_owned(), kv_blocks: Some(1_000), ..WorkerSpec::default() };
    let (mut before, mut pieces) = (held(&router).1, 0);
    while !router.resize_some(&spec, FORGOTTEN_AT_ONCE as u32).unwrap() {
        assert!(before - held(&router).1 <= FORGOTTEN_AT_ONCE as u64, "too many blocks under one lock");
        send(&mut router, &[BlockHash(1_000_000 + pieces)]);
        (before, pieces) = (held(&router).1, pieces + 1);
    }
    assert_eq!((held(&router), pieces), ((BLOCKS, 1_000, BLOCKS), 3_000 / FORGOTTEN_AT_ONCE as u64));
    router.update_worker(spec).unwrap();
    assert_eq!(held(&router).1, 1_000);
}

#[test]
fn everything_goes_in_pieces_and_what_is_predicted_meanwhile_stays() {
    let ((confirmed, predicted, lower), pieces) = forget(Forget::Everything);
    assert_eq!((confirmed, lower), (0, 0));
    assert_eq!((predicted, pieces), (pieces * 4, 3 * BLOCKS / FORGOTTEN_AT_ONCE as u64));
}

#[test]
fn lower_tiers_go_in_pieces_and_the_device_stays() {
    let ((confirmed, predicted, lower), pieces) = forget(Forget::LowerTiers);
    assert_eq!((confirmed, lower), (BLOCKS, 0));
    assert_eq!((predicted, pieces), (BLOCKS + pieces * 4, BLOCKS / FORGOTTEN_AT_ONCE as u64));
}

#[test]
fn doubt_comes_in_pieces_and_keeps_what_has_room() {
    let ((confirmed, predicted, lower), _) = forget(Forget::Events);
    assert_eq!((confirmed, predicted, lower), (0, CAPACITY, 0));
}
