//! Decisions under bursts, spills and refusals.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use warmroute_core::block::Namespace;
use warmroute_core::config::{Policy, RouterConfig};
use warmroute_core::error::{FleetError, RouteError};
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::load::ledger::{Outcome, Reservation};
use warmroute_core::router::{Decision, RouteRequest, Router};
use warmroute_core::select::Reason;
use warmroute_core::time::Time;

const POLICIES: [Policy; 9] = [
    Policy::PricedAffinity,
    Policy::RoundRobin,
    Policy::LeastRequests,
    Policy::PowerOfTwo,
    Policy::ConsistentHash,
    Policy::SessionSticky,
    Policy::Lmetric,
    Policy::StickyUntilSaturated,
    Policy::CacheAware,
];

fn worker(i: usize) -> WorkerSpec {
    WorkerSpec { name: format!("w{i}"), kv_blocks: Some(26_000), ..WorkerSpec::default() }
}

fn router(workers: usize, config: RouterConfig) -> Router {
    let mut router = Router::new(config).unwrap();
    for i in 0..workers {
        router.add_worker(worker(i)).unwrap();
    }
    router
}

/// A prompt of `length` ids of which the first `shared` are the same for all `agent`s' prompts.
fn ids(agent: u32, shared: u32, length: u32, own: u32) -> Vec<u8> {
    let id = |i: u32| if i < shared { agent * 100_000 + i } else { 50_000_000 + own * 100_000 + i };
    (0..length).flat_map(|i| id(i).to_le_bytes()).collect()
}

fn route(router: &mut Router, ids: &[u8], now: Time, random: u64) -> (Decision, Reservation) {
    let mut blocks = Vec::new();
    router.hasher().hash_ids(&Namespace::default(), ids, &mut blocks);
    let prompt_tokens = (ids.len() / 4) as u32;
    let request = RouteRequest {
        blocks: &blocks,
        prompt_tokens,
        max_output_tokens: Some(120),
        ..RouteRequest::default()
    };
    router.route(&request, now, random).unwrap()
}

fn finish(router: &mut Router, reservation: Reservation, now: Time) {
    router.first_token(&reservation, now);
    router.close(reservation, "", Outcome::Finished);
}

/// Requests that each worker got.
fn counts(decisions: &[Decision], workers: usize) -> Vec<usize> {
    let mut counts = vec![0; workers];
    for decision in decisions {
        counts[decision.worker.id.slot().index()] += 1;
    }
    counts
}

/// Routes `count` prompts, leaving all of them open.
fn burst(
    router: &mut Router,
    count: u32,
    prompt: impl Fn(u32) -> Vec<u8>,
) -> (Vec<Decision>, Vec<Reservation>) {
    (0..count).map(|i| route(router, &prompt(i), Time::from_nanos(u64::from(i) * 1000), u64::from(i))).unzip()
}

fn close_all(router: &mut Router, reservations: Vec<Reservation>) {
    for reservation in reservations {
        router.close(reservation, "", Outcome::Finished);
    }
    assert_eq!(router.ledger().open(), 0);
}

#[test]
fn identical_prompts_do_not_pile_up_on_their_holder() {
    let mut router = router(8, RouterConfig::default());
    let prompt = ids(1, 30_000, 30_000, 0);
    let (_, first) = route(&mut router, &prompt, Time::ZERO, 0);
    finish(&mut router, first, Time::from_secs_f64(3.0));
    let (decisions, open) = burst(&mut router, 256, |_| prompt.clone());
    let counts = counts(&decisions, 8);
    assert!(counts.iter().all(|count| *count <= 80), "at most 2.5 times the mean of 32: {counts:?}");
    close_all(&mut router, open);
}

#[test]
fn a_cold_burst_of_one_prefix_is_prefilled_on_two_workers_at_most() {
    for own in [100, 256, 1000] {
        let mut router = router(8, RouterConfig::default());
        let (decisions, open) = burst(&mut router, 64, |i| ids(1, 30_000 - own, 30_000, i));
        let counts = counts(&decisions, 8);
        assert!(counts.iter().filter(|count| **count > 0).count() <= 2, "suffixes of {own}: {counts:?}");
        close_all(&mut router, open);
    }
}

#[test]
fn one_busy_worker_does_not_move_other_prefixes() {
    let mut router = router(4, RouterConfig::default());
    let homes: Vec<_> = (0..12)
        .map(|agent| {
            let (decision, reservation) = route(&mut router, &ids(agent, 20_000, 20_000, 0), Time::ZERO, 0);
            finish(&mut router, reservation, Time::from_secs_f64(1.0));
            decision.worker.id
        })
        .collect();
    let (_, busy) = burst(&mut router, 8, |_| ids(0, 20_000, 20_000, 0));
    for (agent, home) in homes.iter().enumerate().filter(|(_, home)| **home != homes[0]) {
        let (decision, reservation) =
            route(&mut router, &ids(agent as u32, 20_000, 20_000, 0), Time::ZERO, 0);
        assert_eq!((decision.worker.id, decision.reason), (*home, Reason::Warm));
        finish(&mut router, reservation, Time::from_secs_f64(1.0));
    }
    close_all(&mut router, busy);
}

#[test]
fn cold_prompts_one_by_one_spread_over_idle_workers() {
    let mut router = router(4, RouterConfig::default());
    let decisions: Vec<_> = (0..400)
        .map(|agent| {
            let (decision, reservation) = route(&mut router, &ids(agent, 2000, 2000, 0), Time::ZERO, 0);
            finish(&mut router, reservation, Time::ZERO);
            decision
        })
        .collect();
    let counts = counts(&decisions, 4);
    assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
}

#[test]
fn prompts_shorter_than_a_block_spread_too() {
    let mut router = router(4, RouterConfig::default());
    let decisions: Vec<_> = (0..400_u64)
        .map(|i| {
            let random = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let (decision, reservation) = route(&mut router, &ids(1, 10, 10, 0), Time::ZERO, random);
            finish(&mut router, reservation, Time::ZERO);
            decision
        })
        .collect();
    let counts = counts(&decisions, 4);
    assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
}

#[test]
fn every_policy_uses_every_worker_and_leaks_no_load() {
    for policy in POLICIES {
        let mut router = router(4, RouterConfig { policy, ..RouterConfig::default() });
        let random = |i: u32| u64::from(i).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (decisions, open): (Vec<_>, Vec<_>) =
            (0..200).map(|i| route(&mut router, &ids(i % 40, 3000, 4000, i), Time::ZERO, random(i))).unzip();
        let counts = counts(&decisions, 4);
        assert!(counts.iter().all(|count| *count > 10), "{policy:?}: {counts:?}");
        close_all(&mut router, open);
        assert!(
            router.stats().workers.iter().all(|w| w.wait_seconds == 0.0 && w.active_blocks == 0),
            "{policy:?}"
        );
    }
}

#[test]
fn round_robin_takes_each_in_turn() {
    let mut router = router(3, RouterConfig { policy: Policy::RoundRobin, ..RouterConfig::default() });
    let (decisions, open) = burst(&mut router, 6, |i| ids(i, 100, 100, 0));
    let slots: Vec<_> = decisions.iter().map(|decision| decision.worker.id.slot().index()).collect();
    assert_eq!(slots, [0, 1, 2, 0, 1, 2]);
    close_all(&mut router, open);
}

fn ask<'a>(model: Option<&'a str>, prompt_tokens: u32) -> RouteRequest<'a> {
    RouteRequest { prompt_tokens, model, ..RouteRequest::default() }
}

fn refusal(router: &mut Router, request: &RouteRequest<'_>) -> RouteError {
    router.route(request, Time::ZERO, 0).unwrap_err()
}

#[test]
fn each_refusal_says_whose_fault_it_is() {
    let mut router = router(0, RouterConfig::default());
    assert_eq!(refusal(&mut router, &ask(Some("m"), 10)), RouteError::NoEligibleWorker);
    let spec =
        WorkerSpec { models: vec!["m".into()], max_model_len: Some(100), max_requests: Some(1), ..worker(0) };
    router.add_worker(spec).unwrap();
    assert_eq!(refusal(&mut router, &ask(Some("other"), 10)), RouteError::UnknownModel("other".into()));
    let too_long = RouteError::PromptTooLong { prompt_tokens: 100, max_model_len: 100 };
    assert_eq!(refusal(&mut router, &ask(Some("m"), 100)), too_long);
    let (_, open) = router.route(&ask(Some("m"), 99), Time::ZERO, 0).unwrap();
    let RouteError::Saturated { retry_after } = refusal(&mut router, &ask(Some("m"), 99)) else { panic!() };
    assert!(retry_after >= Duration::from_secs(1) && retry_after <= Duration::from_secs(60));
    router.close(open, "", Outcome::Finished);
    router.set_ready("w0", false).unwrap();
    assert_eq!(refusal(&mut router, &ask(Some("m"), 10)), RouteError::NoEligibleWorker);
    router.set_ready("w0", true).unwrap();
    router.drain_worker("w0").unwrap();
    assert_eq!(refusal(&mut router, &ask(Some("m"), 10)), RouteError::NoEligibleWorker);
    let stats = router.stats();
    assert_eq!(
        (stats.unknown_model, stats.prompt_too_long, stats.saturated, stats.no_eligible_worker),
        (1, 1, 1, 3)
    );
}

#[test]
fn a_fleet_change_with_a_wrong_name_or_block_size_is_refused() {
    let mut router = router(1, RouterConfig::default());
    assert_eq!(router.add_worker(worker(0)), Err(FleetError::DuplicateWorker("w0".into())));
    assert_eq!(router.remove_worker("x"), Err(FleetError::UnknownWorker("x".into())));
    let wrong = WorkerSpec { block_size: Some(32), ..worker(1) };
    assert!(matches!(
        router.add_worker(wrong),
        Err(FleetError::BlockSize { block_size: 32, expected: 16, .. })
    ));
}

#[test]
fn avoided_workers_are_not_chosen() {
    let mut router = router(2, RouterConfig::default());
    let prompt = ids(1, 1000, 1000, 0);
    let (home, reservation) = route(&mut router, &prompt, Time::ZERO, 0);
    finish(&mut router, reservation, Time::ZERO);
    let avoid = [home.worker.id];
    let request = RouteRequest { prompt_tokens: 1000, avoid: &avoid, ..RouteRequest::default() };
    let decision = router.decide(&request, Time::ZERO, 0).unwrap();
    assert_ne!(decision.worker.id, home.worker.id);
}

#[test]
fn a_worker_that_comes_back_is_cold() {
    let mut router = router(1, RouterConfig::default());
    let prompt = ids(1, 1000, 1000, 0);
    let (_, open) = route(&mut router, &prompt, Time::ZERO, 0);
    router.remove_worker("w0").unwrap();
    router.add_worker(worker(0)).unwrap();
    let (decision, second) = route(&mut router, &prompt, Time::ZERO, 0);
    assert_eq!((decision.overlap_tokens, decision.reason), (0, Reason::Cold));
    // The lease on the worker that left takes nothing from the one that took its place.
    router.close(open, "", Outcome::Finished);
    assert_eq!(router.stats().workers[0].requests, 1);
    router.close(second, "", Outcome::Finished);
}
