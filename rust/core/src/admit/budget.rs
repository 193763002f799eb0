//! How many retries are allowed: a share of recent requests, and a small floor.

use parking_lot::Mutex;

use crate::admit::seconds::{Seconds, WINDOW};
use crate::time::Time;

/// What all ways in take their retries from, so that it bounds them together.
///
/// A retry is a second prefill: where workers fail because they have too much to do, retries without a bound keep
/// them there. A request costs one addition to a shared counter; only a retry takes a lock.
#[derive(Debug)]
pub struct RetryBudget {
    share: f64,
    floor: f64,
    requests: Seconds,
    retries: Seconds,
    /// Held from the look at the budget until a retry is taken from it: two threads cannot take the same one.
    taking: Mutex<()>,
}

impl RetryBudget {
    /// `share` of the requests of the last 10 s, and `floor` retries a second in any case.
    pub fn new(share: f64, floor: f64) -> RetryBudget {
        RetryBudget {
            share,
            floor,
            requests: Seconds::default(),
            retries: Seconds::default(),
            taking: Mutex::new(()),
        }
    }

    /// A request came.
    pub fn request(&self, now: Time) {
        self.requests.add(now);
    }

    /// Takes one retry where the budget has it.
    pub fn take(&self, now: Time) -> bool {
        let _taking = self.taking.lock();
        let allowed = self.share * self.requests.recent(now) as f64 + self.floor * f64::from(WINDOW);
        let has = (self.retries.recent(now) + 1) as f64 <= allowed;
        if has {
            self.retries.add(now);
        }
        has
    }
}
