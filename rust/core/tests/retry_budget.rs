//! The retry budget, against a reference that remembers every request and every retry.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use proptest::prelude::*;
use warmroute_core::admit::RetryBudget;
use warmroute_core::time::Time;

const SECOND: u64 = 1_000_000_000;
const WINDOW: u64 = 10;
/// How far behind the latest moment a thread may be: nothing is lost up to here.
const LATE: u64 = 5 * SECOND;

/// The reference: a list of all that happened, each moment by its second.
#[derive(Default)]
struct Reference {
    requests: Vec<u64>,
    retries: Vec<u64>,
}

impl Reference {
    fn recent(seconds: &[u64], now: u64) -> usize {
        seconds.iter().filter(|second| **second + WINDOW > now).count()
    }

    fn take(&mut self, share: f64, floor: f64, now: u64) -> bool {
        let allowed = share * Reference::recent(&self.requests, now) as f64 + floor * WINDOW as f64;
        let has = (Reference::recent(&self.retries, now) + 1) as f64 <= allowed;
        self.retries.extend(has.then_some(now));
        has
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Requests(usize),
    Takes(usize),
    Pause(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1usize..30).prop_map(Step::Requests),
        (1usize..8).prop_map(Step::Takes),
        (0..3 * SECOND).prop_map(Step::Pause),
        (0..40 * SECOND).prop_map(Step::Pause),
    ]
}

fn at(seconds: f64) -> Time {
    Time::from_secs_f64(seconds)
}

fn takes(budget: &RetryBudget, now: Time) -> usize {
    (0..1000).take_while(|_| budget.take(now)).count()
}

fn requests(budget: &RetryBudget, count: usize, now: Time) {
    (0..count).for_each(|_| budget.request(now));
}

proptest! {
    /// Threads look at the clock a little before they call, so that moments come out of order.
    #[test]
    fn it_allows_what_the_reference_allows(
        share in 0.0f64..=1.0,
        floor in 0.0f64..2.0,
        steps in prop::collection::vec((step(), 0..LATE), 1..120),
    ) {
        let budget = RetryBudget::new(share, floor);
        let mut reference = Reference::default();
        let mut latest = LATE;
        for (step, late) in steps {
            let moment = latest - late;
            let (now, second) = (Time::from_nanos(moment), moment / SECOND);
            match step {
                Step::Pause(nanos) => latest += nanos,
                Step::Requests(count) => {
                    requests(&budget, count, now);
                    reference.requests.extend(std::iter::repeat_n(second, count));
                }
                Step::Takes(count) => {
                    for _ in 0..count {
                        prop_assert_eq!(budget.take(now), reference.take(share, floor, second));
                    }
                }
            }
        }
    }
}

#[test]
fn a_share_of_recent_requests_and_a_floor() {
    let budget = RetryBudget::new(0.1, 1.0);
    assert_eq!(takes(&budget, at(0.0)), 10);
    requests(&budget, 500, at(0.5));
    assert_eq!(takes(&budget, at(0.9)), 50);
    assert_eq!(takes(&budget, at(9.9)), 0);
    // Retries are forgotten with the requests that allowed them.
    assert_eq!(takes(&budget, at(10.0)), 10);
}

#[test]
fn none_without_share_and_floor() {
    let budget = RetryBudget::new(0.0, 0.0);
    requests(&budget, 1000, at(0.0));
    assert!(!budget.take(at(0.0)));
}

#[test]
fn a_moment_long_before_the_latest_counts_as_the_latest() {
    let budget = RetryBudget::new(1.0, 0.0);
    requests(&budget, 1, at(32.0));
    requests(&budget, 1, at(0.0));
    assert_eq!(takes(&budget, at(32.0)), 2);
}

#[test]
fn threads_lose_no_request_and_share_what_is_allowed() {
    let budget = RetryBudget::new(0.5, 0.0);
    let taken = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| requests(&budget, 10_000, at(1.0)));
        }
    });
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = (0..10_000).filter(|_| budget.take(at(1.5))).count();
                taken.fetch_add(own, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(taken.into_inner(), 20_000);
}
