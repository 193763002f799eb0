//! What one worker has to do.

use std::time::Duration;

use crate::load::active::ActiveBlocks;
use crate::load::observed::{Latest, Observed};
use crate::time::Time;

/// The weight of what was observed before, at each new observation: about the last ten count.
const MEMORY: f64 = 0.9;
/// A wait is never scaled by less or more than this: a fault of the clock or one odd worker must not run away.
const SCALE: (f64, f64) = (0.5, 2.0);

/// Requests in a row that get no reply until a worker is left alone. A worker that answers is not one of those,
/// whatever it answers: a busy one says 503.
pub(super) const FAILURES: u32 = 3;
/// How long it is left alone at first; twice as long after each trial that fails, up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The load of one worker, as sums over its open reservations.
#[derive(Debug, Default)]
pub struct Load {
    pub(super) generation: u32,
    pub(super) requests: u32,
    pub(super) prefilling: u32,
    pub(super) prefill_nanos: u64,
    pub(super) queued_tokens: u64,
    pub(super) context_tokens: u64,
    pub(super) active: ActiveBlocks,
    pub(super) observed_seconds: f64,
    pub(super) predicted_seconds: f64,
    pub(super) failures: u32,
    pub(super) paused_until: Time,
    pub(super) moves: u64,
    pub(super) latest: Latest,
}

impl Load {
    /// Requests that have a reservation.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Requests that have not had their first token.
    pub fn prefilling(&self) -> u32 {
        self.prefilling
    }

    /// Uncached prompt tokens of requests that have not had their first token.
    pub fn queued_tokens(&self) -> u64 {
        self.queued_tokens
    }

    /// Context of the active requests, in tokens.
    pub fn context_tokens(&self) -> u64 {
        self.context_tokens
    }

    /// Distinct KV blocks that active requests use.
    pub fn active_blocks(&self) -> u64 {
        self.active.blocks()
    }

    /// Seconds until the prefill dispatched so far is done, as observed times say.
    pub fn wait_seconds(&self) -> f64 {
        self.prefill_nanos as f64 / 1e9 * self.scale()
    }

    /// Observed over predicted time to first token, within 0.5 and 2.
    pub fn scale(&self) -> f64 {
        if self.predicted_seconds > 1e-3 {
            (self.observed_seconds / self.predicted_seconds).clamp(SCALE.0, SCALE.1)
        } else {
            1.0
        }
    }

    /// Grows with each sign of life of the requests: a first token, more output, a reply that is whole.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// What the worker's own metrics say beyond these sums; nothing once that is stale.
    pub fn observed(&self, now: Time) -> Observed {
        self.latest.at(now)
    }

    /// Whether the worker's last requests failed, and it is not time to try it again.
    ///
    /// When it is time, one request is the trial: while that is open, others stay away.
    pub fn is_failing(&self, now: Time) -> bool {
        self.failures >= FAILURES && (now < self.paused_until || self.requests > 0)
    }

    pub(super) fn failed(&mut self, now: Time) {
        self.failures = self.failures.saturating_add(1);
        if let Some(trials) = self.failures.checked_sub(FAILURES) {
            let pause = PAUSE.0.saturating_mul(1 << trials.min(10)).min(PAUSE.1);
            self.paused_until = now.after(pause);
        }
    }

    pub(super) fn observe(&mut self, observed: f64, predicted: f64) {
        self.observed_seconds = MEMORY * self.observed_seconds + observed;
        self.predicted_seconds = MEMORY * self.predicted_seconds + predicted;
    }
}
