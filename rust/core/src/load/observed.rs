//! What a worker's own metrics say: a correction to this router's bookings, for a while, and never their replacement.

use crate::time::Time;

/// What a worker has beyond this router's bookings: what other routers sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// Requests that this router did not send.
    pub requests: u32,
    /// Their context, in tokens.
    pub context_tokens: u64,
    /// The share of the worker's KV blocks in active use, whoever uses them.
    pub kv_usage: f64,
}

/// The last observation, and how long it counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latest {
    observed: Observed,
    until: Time,
}

impl Latest {
    /// What was observed, and until when it counts.
    pub(crate) fn new(observed: Observed, until: Time) -> Latest {
        Latest { observed, until }
    }

    /// What counts at `now`: nothing once it is stale.
    pub(crate) fn at(&self, now: Time) -> Observed {
        if now < self.until { self.observed } else { Observed::default() }
    }
}
