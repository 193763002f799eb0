//! Simulated time over real time.

use std::time::{Duration, Instant};

/// Simulated seconds since the start, `speed` of them in a real one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: Instant,
    speed: f64,
}

impl Clock {
    pub(super) fn new(speed: f64) -> Clock {
        Clock { origin: Instant::now(), speed }
    }

    /// The simulated moment.
    pub(super) fn now(&self) -> f64 {
        self.origin.elapsed().as_secs_f64() * self.speed
    }

    /// When the simulated moment `at` is.
    pub(super) fn instant(&self, at: f64) -> Instant {
        self.origin + Duration::from_secs_f64(at / self.speed)
    }
}
