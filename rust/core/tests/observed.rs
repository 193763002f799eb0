//! What workers' own metrics say, beside the router's bookings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use warmroute_core::config::{Policy, RouterConfig};
use warmroute_core::fleet::{WorkerSpec, WorkerState};
use warmroute_core::load::ledger::Outcome;
use warmroute_core::router::{RouteRequest, Router};
use warmroute_core::time::Time;

const ASKED: RouteRequest<'_> = RouteRequest {
    blocks: &[],
    prompt_tokens: 1000,
    units: warmroute_core::block::Units::Tokens,
    model: None,
    tenant: "",
    session: None,
    max_output_tokens: Some(100),
    avoid: &[],
};
const VALID: Duration = Duration::from_secs(15);

fn second(seconds: u64) -> Time {
    Time::ZERO.after(Duration::from_secs(seconds))
}

fn pair(policy: Policy) -> Router {
    let mut router = Router::new(RouterConfig { policy, ..RouterConfig::default() }).unwrap();
    for name in ["a", "b"] {
        router
            .add_worker(WorkerSpec { name: name.into(), kv_blocks: Some(1000), ..WorkerSpec::default() })
            .unwrap();
    }
    router
}

fn chosen(router: &mut Router, now: Time) -> String {
    router.decide(&ASKED, now, 1).unwrap().worker.spec.name.clone()
}

#[test]
fn what_others_sent_counts_until_it_is_stale() {
    let mut router = pair(Policy::LeastRequests);
    router.observe_worker("a", 5, 0.3, second(0), VALID).unwrap();
    assert_eq!(chosen(&mut router, second(1)), "b");
    let (_, reservation) = router.route(&ASKED, second(1), 1).unwrap();
    // One booked request against five that are not ours.
    assert_eq!(chosen(&mut router, second(14)), "b");
    assert_eq!(router.stats().workers[0].other_requests, 5);
    assert_eq!(chosen(&mut router, second(15)), "a");
    assert_eq!(router.stats().workers[0].other_requests, 0);
    router.close(reservation, "", Outcome::Finished);
}

#[test]
fn an_observation_replaces_the_one_before_and_books_nothing() {
    let mut router = pair(Policy::LeastRequests);
    router.observe_worker("a", 5, 0.0, second(0), VALID).unwrap();
    router.observe_worker("a", 0, 0.0, second(1), VALID).unwrap();
    router.observe_worker("b", 1, 0.0, second(1), VALID).unwrap();
    assert_eq!(chosen(&mut router, second(1)), "a");
    assert_eq!(router.ledger().open(), 0);
    assert!(router.observe_worker("c", 1, 0.0, second(1), VALID).is_err());
}

#[test]
fn a_worker_that_others_have_filled_is_a_last_resort() {
    let mut router = pair(Policy::PricedAffinity);
    for full in ["a", "b"] {
        let other = if full == "a" { "b" } else { "a" };
        router.observe_worker(full, 20, 0.99, second(0), VALID).unwrap();
        router.observe_worker(other, 0, 0.0, second(0), VALID).unwrap();
        assert_eq!(chosen(&mut router, second(1)), other);
    }
    // Odd values of a metric are harmless.
    router.observe_worker("a", u32::MAX, f64::NAN, second(1), VALID).unwrap();
    router.observe_worker("b", u32::MAX, f64::INFINITY, second(1), VALID).unwrap();
    chosen(&mut router, second(1));
}

#[test]
fn the_limit_of_requests_is_of_our_own() {
    let mut router = pair(Policy::LeastRequests);
    for name in ["a", "b"] {
        let spec = WorkerSpec { name: name.into(), max_requests: Some(1), ..WorkerSpec::default() };
        router.update_worker(spec).unwrap();
        router.observe_worker(name, 50, 0.9, second(0), VALID).unwrap();
    }
    assert!(router.decide(&ASKED, second(0), 1).is_ok());
}

#[test]
fn signs_of_life_are_counted() {
    let mut router = pair(Policy::RoundRobin);
    let moves = |router: &Router| -> u64 {
        let fleet = router.fleet();
        fleet.iter().map(|(worker, _)| router.ledger().load(worker.id.slot()).unwrap().moves()).sum()
    };
    let (_, reservation) = router.route(&ASKED, second(0), 1).unwrap();
    let (_, failing) = router.route(&ASKED, second(0), 1).unwrap();
    assert_eq!(moves(&router), 0);
    router.first_token(&reservation, second(1));
    router.first_token(&reservation, second(1));
    assert_eq!(moves(&router), 1);
    router.progress(&reservation, 5);
    router.progress(&reservation, 5);
    assert_eq!(moves(&router), 2);
    router.close(reservation, "", Outcome::Finished);
    router.close(failing, "", Outcome::Failed);
    assert_eq!(moves(&router), 3);
}

#[test]
fn a_worker_that_drains_can_be_taken_back() {
    let mut router = pair(Policy::RoundRobin);
    router.drain_worker("a").unwrap();
    let state = |router: &Router| router.fleet().iter().next().map(|(_, state)| state);
    assert_eq!(state(&router), Some(WorkerState::Draining));
    router.resume_worker("a").unwrap();
    assert_eq!(state(&router), Some(WorkerState::Ready));
    assert!(router.resume_worker("c").is_err());
}
