//! Why a request would go where: every worker's terms.

use std::sync::Arc;

use crate::error::RouteError;
use crate::fleet::{Worker, WorkerState};
use crate::router::{Decision, Refusal, RouteRequest, Router};
use crate::select::cost::{self, Cost};
use crate::time::Time;

/// One worker's part in a decision.
#[derive(Clone, Debug)]
pub struct CandidateView {
    /// The worker.
    pub worker: Arc<Worker>,
    /// Whether it takes requests.
    pub state: WorkerState,
    /// Why it may not take this one; nothing where it may.
    pub refusal: Option<Refusal>,
    /// Leading tokens of the prompt that it holds and can use.
    pub overlap_tokens: u32,
    /// Those of them that a KV event confirmed.
    pub confirmed_tokens: u32,
    /// The tokens after them that it can bring back from a lower tier.
    pub lower_tokens: u32,
    /// Its active requests.
    pub requests: u32,
    /// Context tokens of its active requests.
    pub context_tokens: u64,
    /// Whether its KV blocks are nearly all in active use.
    pub full: bool,
    /// The terms of its cost.
    pub cost: Cost,
}

/// A decision that books nothing, and every worker's part in it.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What would be decided.
    pub decision: Result<Decision, RouteError>,
    /// Every worker, by slot.
    pub candidates: Vec<CandidateView>,
}

impl Router {
    /// Explains where a request would go.
    pub fn explain(&mut self, request: &RouteRequest<'_>, now: Time, random: u64) -> Explanation {
        let decision = self.decide(request, now, random);
        let question = self.question(request, random);
        let view = |(worker, state): (&Arc<Worker>, WorkerState)| {
            let candidate = self.candidate(request, worker);
            let confirmed = self.overlaps.get(worker.id.slot).confirmed * self.config.block_size;
            CandidateView {
                worker: Arc::clone(worker),
                state,
                refusal: self.refusal(request, worker, state),
                overlap_tokens: candidate.overlap_tokens,
                confirmed_tokens: confirmed.min(candidate.overlap_tokens),
                lower_tokens: candidate.lower_tokens,
                requests: candidate.requests,
                context_tokens: candidate.context_tokens,
                full: candidate.full,
                cost: cost::of(&question, &candidate, &self.prices),
            }
        };
        Explanation { decision, candidates: self.fleet.iter().map(view).collect() }
    }
}
