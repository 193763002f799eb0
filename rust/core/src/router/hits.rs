//! A worker's own counters of its prefix cache, where neither its events nor its replies say what it had.

use std::sync::Arc;
use std::time::Duration;

use super::Router;
use super::truth::Loss;
use crate::error::FleetError;
use crate::fleet::Worker;
use crate::load::ledger::{Ended, Load};
use crate::time::Time;

/// Finished requests that a comparison takes, and how many more for each that runs: what runs is in the worker's
/// counters or not, and must not decide.
const REQUESTS: (u64, u64) = (8, 4);

/// Comparisons in a row with far fewer hits than expected after which the worker is taken to hold nothing.
const EMPTY_AFTER: u32 = 2;

/// What finished on a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    requests: u64,
    prompt_tokens: u64,
    held_tokens: u64,
}

/// Where a comparison began.
#[derive(Clone, Copy, Debug)]
struct Start {
    queries: u64,
    hits: u64,
    done: Done,
    active: u64,
    at: Time,
}

/// One worker's comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hits {
    done: Done,
    /// Its requests when the counters were read last, or a reply said what it had.
    quiet_since: u64,
    start: Option<Start>,
    /// Comparisons in a row with too few hits.
    low: u32,
}

impl Hits {
    pub(super) fn finished(&mut self, ended: &Ended) {
        let prompt_tokens = ended.context_tokens - u64::from(ended.output_tokens);
        self.done.requests += 1;
        self.done.prompt_tokens += prompt_tokens;
        self.done.held_tokens += prompt_tokens - ended.uncached_tokens.min(prompt_tokens);
    }

    /// A reply says what the worker had: its counters need not be read.
    pub(super) fn told(&mut self) {
        *self = Hits { done: self.done, quiet_since: self.done.requests, ..Hits::default() };
    }

    fn is_due(&self, active: u64) -> bool {
        let active = self.start.map_or(active, |start| start.active.max(active));
        self.done.requests - self.quiet_since >= REQUESTS.0 + REQUESTS.1 * active
    }
}

impl Router {
    /// Whether the worker's counters of prefix-cache queries and hits should be read, for [`Router::observe_hits`]:
    /// it sends no events, and its last replies did not say what it had cached.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn wants_hits(&self, name: &str) -> Result<bool, FleetError> {
        let worker = self.fleet.get(name)?;
        let slot = worker.id.slot.index();
        Ok(!self.following[slot].live && self.hits[slot].is_due(self.active(worker)))
    }

    /// Takes a worker's own counts of tokens that were looked up in its prefix cache and found there, since it began.
    ///
    /// Where far fewer were found than expected, what was used before the comparison began is taken to be gone, and
    /// at the second time in a row everything.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn observe_hits(&mut self, name: &str, queries: u64, hits: u64, now: Time) -> Result<(), FleetError> {
        let worker = Arc::clone(self.fleet.get(name)?);
        let active = self.active(&worker);
        let slot = worker.id.slot;
        let known = &mut self.hits[slot.index()];
        if self.following[slot.index()].live || !known.is_due(active) {
            return Ok(());
        }
        let start = known.start.replace(Start { queries, hits, done: known.done, active, at: now });
        known.quiet_since = known.done.requests;
        // A counter that has gone back is another process's.
        let Some(start) = start.filter(|start| start.queries <= queries && start.hits <= hits) else {
            return Ok(());
        };
        let expected = known.done.held_tokens - start.done.held_tokens;
        let asked = known.done.prompt_tokens - start.done.prompt_tokens;
        let found = hits - start.hits;
        // A worker that has looked up less than it was asked counts something else.
        if queries - start.queries < asked / 2 || found >= expected / 2 {
            if known.low >= EMPTY_AFTER {
                self.truths[slot.index()].too_low = 0;
            }
            known.low = 0;
            return Ok(());
        }
        known.low += 1;
        let lifetime = Duration::from_millis(self.config.prediction_lifetime_ms);
        let until = if known.low < EMPTY_AFTER { start.at.after(lifetime) } else { Time::MAX };
        self.index.drop_predictions_until(slot, until);
        let lost = u32::try_from(expected - found).unwrap_or(u32::MAX);
        let suspect = known.low >= EMPTY_AFTER;
        self.truths[slot.index()].unseen(Loss::Evicted, lost, suspect);
        Ok(())
    }

    fn active(&self, worker: &Worker) -> u64 {
        self.ledger.load(worker.id.slot).map_or(0, |load: &Load| u64::from(load.requests()))
    }
}
