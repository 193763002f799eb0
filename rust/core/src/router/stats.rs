//! What a router counts.

use crate::error::RouteError;
use crate::fleet::WorkerState;
use crate::load::ledger::Outcome;
use crate::prefix::IndexStats;
use crate::router::{Decision, Router, Truth};
use crate::select::Reason;

/// Counters since the start, and the state of the moment.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Decisions that were booked, by the reason's place in [`Reason::ALL`].
    pub decisions: [u64; Reason::ALL.len()],
    /// Prompt tokens of those decisions.
    pub prompt_tokens: u64,
    /// Overlap of those decisions, in tokens.
    pub overlap_tokens: u64,
    /// What lower tiers had beyond it, in tokens.
    pub lower_tokens: u64,
    /// Requests for a model that nobody serves.
    pub unknown_model: u64,
    /// Requests with a prompt longer than any context.
    pub prompt_too_long: u64,
    /// Requests for which no worker was ready.
    pub no_eligible_worker: u64,
    /// Requests refused because every worker was at its limit.
    pub saturated: u64,
    /// Requests that ended well.
    pub finished: u64,
    /// Requests that a worker failed.
    pub failed: u64,
    /// Requests whose client left.
    pub cancelled: u64,
    /// Leases that were dropped without being closed.
    pub abandoned: u64,
    /// Requests whose worker reported its cached tokens.
    pub reported: u64,
    /// Prompt tokens of those requests.
    pub reported_prompt_tokens: u64,
    /// Cached tokens that the workers reported.
    pub reported_cached_tokens: u64,
    /// Overlap that was expected for those requests, lower tiers included, in tokens.
    pub reported_overlap_tokens: u64,
    /// Open reservations.
    pub open: usize,
    /// The index.
    pub index: IndexStats,
    /// Each worker, by slot.
    pub workers: Vec<WorkerStats>,
}

/// The state of one worker.
#[derive(Clone, Debug)]
pub struct WorkerStats {
    /// Its name.
    pub name: String,
    /// Whether it takes requests.
    pub state: WorkerState,
    /// Active requests.
    pub requests: u32,
    /// Requests that its own metrics show and this router did not send.
    pub other_requests: u32,
    /// Requests before their first token.
    pub prefilling: u32,
    /// Uncached prompt tokens before their first token.
    pub queued_tokens: u64,
    /// Context tokens of the active requests.
    pub context_tokens: u64,
    /// Distinct KV blocks in active use.
    pub active_blocks: u64,
    /// Seconds until its prefill is done.
    pub wait_seconds: f64,
    /// Observed over predicted time to first token.
    pub ttft_scale: f64,
    /// Blocks that KV events confirmed.
    pub confirmed_blocks: u64,
    /// Blocks that are assumed to be held.
    pub predicted_blocks: u64,
    /// Blocks that it holds in lower tiers.
    pub lower_blocks: u64,
    /// Whether its KV events are followed.
    pub following: bool,
    /// Its reports against what was predicted.
    pub truth: Truth,
}

impl Stats {
    pub(super) fn decided(&mut self, decision: &Decision) {
        self.decisions[decision.reason as usize] += 1;
        self.prompt_tokens += u64::from(decision.prompt_tokens);
        self.overlap_tokens += u64::from(decision.overlap_tokens);
        self.lower_tokens += u64::from(decision.lower_tokens);
    }

    pub(super) fn refused(&mut self, error: &RouteError) {
        match error {
            RouteError::UnknownModel(_) => self.unknown_model += 1,
            RouteError::PromptTooLong { .. } => self.prompt_too_long += 1,
            RouteError::NoEligibleWorker => self.no_eligible_worker += 1,
            RouteError::Saturated { .. } => self.saturated += 1,
        }
    }

    pub(super) fn cached(&mut self, decision: &Decision, cached_tokens: u32) {
        self.reported += 1;
        self.reported_prompt_tokens += u64::from(decision.prompt_tokens);
        self.reported_cached_tokens += u64::from(cached_tokens);
        self.reported_overlap_tokens += u64::from(decision.held_tokens());
    }

    pub(super) fn closed(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Finished => self.finished += 1,
            Outcome::Failed | Outcome::Unreachable => self.failed += 1,
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::Abandoned => self.abandoned += 1,
        }
    }
}

impl Router {
    /// The counters and the state of the moment.
    pub fn stats(&self) -> Stats {
        let workers = self.fleet.iter().filter_map(|(worker, state)| {
            let load = self.ledger.load(worker.id.slot)?;
            let (confirmed_blocks, predicted_blocks) = self.index.blocks(worker.id.slot);
            Some(WorkerStats {
                name: worker.spec.name.clone(),
                state,
                requests: load.requests(),
                other_requests: load.observed(self.now).requests,
                prefilling: load.prefilling(),
                queued_tokens: load.queued_tokens(),
                context_tokens: load.context_tokens(),
                active_blocks: load.active_blocks(),
                wait_seconds: load.wait_seconds(),
                ttft_scale: load.scale(),
                confirmed_blocks,
                predicted_blocks,
                lower_blocks: self.index.lower_blocks(worker.id.slot),
                following: self.following[worker.id.slot.index()].live,
                truth: self.truths[worker.id.slot.index()].clone(),
            })
        });
        Stats {
            open: self.ledger.open(),
            index: self.index.stats(),
            workers: workers.collect(),
            ..self.stats.clone()
        }
    }
}
