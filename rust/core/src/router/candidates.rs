//! Who may take a request, and what is known of each.

use std::time::Duration;

use crate::block::Units;
use crate::error::RouteError;
use crate::fleet::{Worker, WorkerState};
use crate::ids::Slot;
use crate::load::ledger::Load;
use crate::router::truth::Following;
use crate::router::{RouteRequest, Router};
use crate::select::{Candidate, Question, cost};
use crate::time::Time;

/// When to try again after a refusal for saturation: never sooner than the first, never later than the second.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How much later than the replies the events of requests may come.
const EVENTS_LATE: Duration = Duration::from_secs(1);

/// Characters of a model's name that a message repeats.
const MODEL_CHARS: usize = 128;

/// Why a worker may not take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It does not serve the model.
    Model,
    /// It does not answer.
    Down,
    /// It takes nothing new.
    Draining,
    /// The request said to avoid it.
    Avoided,
    /// The prompt is longer than its context.
    TooLong,
    /// It has as many requests as it may have.
    AtLimit,
    /// Its last requests got no reply: it is left alone for a while, and then tried with one.
    Failing,
}

impl Refusal {
    /// Its name in explanations.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Model => "model",
            Refusal::Down => "down",
            Refusal::Draining => "draining",
            Refusal::Avoided => "avoided",
            Refusal::TooLong => "too-long",
            Refusal::AtLimit => "at-limit",
            Refusal::Failing => "failing",
        }
    }
}

/// Stands for the prefix that similar prompts share: the hash at the largest power of two of blocks in the first
/// half. Prompts of one agent differ at their ends and agree there. Models have prefixes of their own.
pub(super) fn prefix_key(request: &RouteRequest<'_>) -> u64 {
    let half = (request.blocks.len() / 2).max(1);
    let block = request.blocks.get((1 << half.ilog2()) - 1).map_or(0, |block| block.0);
    block ^ request.model.map_or(0, |model| xxhash_rust::xxh3::xxh3_64(model.as_bytes()))
}

impl Router {
    /// Fills the candidates for a request.
    pub(super) fn gather(
        &mut self,
        request: &RouteRequest<'_>,
        now: Time,
        random: u64,
    ) -> Result<Question, RouteError> {
        self.now = self.now.max(now);
        let mut overlaps = std::mem::take(&mut self.overlaps);
        self.index.lookup(request.blocks, now, &mut overlaps);
        self.overlaps = overlaps;
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let eligible =
            self.fleet.iter().filter(|(worker, state)| self.refusal(request, worker, *state).is_none());
        candidates.extend(eligible.map(|(worker, _)| self.candidate(request, worker)));
        self.candidates = candidates;
        if self.candidates.is_empty() {
            return Err(self.no_candidate(request));
        }
        Ok(self.question(request, random))
    }

    /// Why `worker` may not take the request; nothing where it may.
    pub(super) fn refusal(
        &self,
        request: &RouteRequest<'_>,
        worker: &Worker,
        state: WorkerState,
    ) -> Option<Refusal> {
        if !worker.serves(request.model) {
            return Some(Refusal::Model);
        }
        match state {
            WorkerState::Down => return Some(Refusal::Down),
            WorkerState::Draining => return Some(Refusal::Draining),
            WorkerState::Ready => {}
        }
        if self.ledger.load(worker.id.slot).is_some_and(|load| load.is_failing(self.now)) {
            return Some(Refusal::Failing);
        }
        if request.avoid.contains(&worker.id) {
            return Some(Refusal::Avoided);
        }
        if self.too_long(request, worker) {
            return Some(Refusal::TooLong);
        }
        let limit = worker.spec.max_requests.unwrap_or(self.config.max_requests_per_worker);
        let requests = self.ledger.load(worker.id.slot).map_or(0, Load::requests);
        (limit > 0 && requests >= limit).then_some(Refusal::AtLimit)
    }

    /// A worker needs room for one output token. An estimated length refuses nobody.
    fn too_long(&self, request: &RouteRequest<'_>, worker: &Worker) -> bool {
        request.units == Units::Tokens
            && worker.spec.max_model_len.is_some_and(|len| request.prompt_tokens >= len)
    }

    pub(super) fn candidate(&self, request: &RouteRequest<'_>, worker: &Worker) -> Candidate {
        let block_size = self.config.block_size;
        // The engine computes at least the last token again, and caches whole blocks.
        let usable = request.prompt_tokens.saturating_sub(1) / block_size * block_size;
        let slot = worker.id.slot;
        let overlap = self.overlaps.get(slot);
        let left = self.left_when_begun(request, worker, overlap.blocks);
        let overlap_tokens = (left * block_size).min(usable);
        // Of what goes meanwhile nobody knows whether a lower tier keeps it.
        let lower = if left < overlap.blocks { 0 } else { overlap.lower };
        let lower_tokens = (lower * block_size).min(usable - overlap_tokens);
        let base = Candidate { overlap_tokens, lower_tokens, ..idle(slot, worker.name_hash) };
        let Some(load) = self.ledger.load(slot) else { return base };
        let others = load.observed(self.now);
        if load.requests() == 0 && others.requests == 0 {
            return base;
        }
        let new_blocks = u64::from((request.prompt_tokens - overlap_tokens) / block_size);
        let limit = self.config.full_share * f64::from(self.kv_blocks(worker));
        Candidate {
            wait_seconds: load.wait_seconds(),
            queued_tokens: load.queued_tokens(),
            requests: load.requests().saturating_add(others.requests),
            context_tokens: load.context_tokens() + others.context_tokens,
            full: (load.active_blocks() + new_blocks) as f64 > limit
                || others.kv_usage > self.config.full_share,
            ..base
        }
    }

    /// Blocks of `overlap` that the worker will still hold when it begins with the request: those that it was sent
    /// before take room first, and evict what was used least recently. Events will tell so, when that has happened.
    fn left_when_begun(&self, request: &RouteRequest<'_>, worker: &Worker, overlap: u32) -> u32 {
        let slot = worker.id.slot;
        let Following { live, inexact, copies, .. } = self.following[slot.index()];
        let (Some(load), Some(capacity)) = (self.ledger.load(slot), worker.spec.kv_blocks) else {
            return overlap;
        };
        // Without events predictions make room for one another; those that no event names are not told apart.
        if overlap == 0 || !live || inexact {
            return overlap;
        }
        let (confirmed, predicted) = self.index.blocks(slot);
        // Predictions that are older, and of no request that waits, are of requests that never came to be.
        let lifetime = Duration::from_millis(self.config.prediction_lifetime_ms);
        let recent = self.index.predicted_beyond(slot, self.now.after(lifetime.saturating_sub(EVENTS_LATE)));
        let queued = load.queued_tokens() / u64::from(self.config.block_size);
        // Each request has a block that is not full, and has no name.
        let wanted =
            confirmed + predicted.min(queued).max(recent as u64) + u64::from(load.requests() + copies);
        let evictions = usize::try_from(wanted.saturating_sub(u64::from(capacity))).unwrap_or(usize::MAX);
        self.index.left(slot, &request.blocks[..overlap as usize], evictions) as u32
    }

    pub(super) fn question(&self, request: &RouteRequest<'_>, random: u64) -> Question {
        // Prompts without a block have no prefix to keep together: a random one spreads them.
        let prefix = if request.blocks.is_empty() { random } else { prefix_key(request) };
        let head_blocks = (self.config.hash_prefix_tokens / self.config.block_size).max(1) as usize;
        let head = request.blocks.get(head_blocks.min(request.blocks.len()).wrapping_sub(1));
        let session = request.session.map(|session| xxhash_rust::xxh3::xxh3_64(session.as_bytes()));
        Question {
            prompt_tokens: request.prompt_tokens,
            output_tokens: self.expected_output(request),
            prefix,
            head: head.map_or(prefix, |block| block.0),
            session: session.unwrap_or(prefix),
            copies_in_progress: self.ledger.copies_in_progress(prefix),
            turn: self.turn,
            random,
        }
    }

    /// Why there is no candidate: the refusal that is nearest to taking the request decides.
    fn no_candidate(&self, request: &RouteRequest<'_>) -> RouteError {
        let refusals =
            || self.fleet.iter().map(|(worker, state)| (worker, self.refusal(request, worker, state)));
        let any = |wanted: Refusal| refusals().any(|(_, refusal)| refusal == Some(wanted));
        if any(Refusal::AtLimit) {
            return RouteError::Saturated { retry_after: self.retry_after(request) };
        }
        if any(Refusal::TooLong) {
            let too_long = refusals().filter(|(_, refusal)| *refusal == Some(Refusal::TooLong));
            let max_model_len =
                too_long.filter_map(|(worker, _)| worker.spec.max_model_len).max().unwrap_or(0);
            return RouteError::PromptTooLong { prompt_tokens: request.prompt_tokens, max_model_len };
        }
        match request.model {
            Some(model) if !self.fleet.is_empty() && refusals().all(|(_, r)| r == Some(Refusal::Model)) => {
                RouteError::UnknownModel(shortened(model))
            }
            _ => RouteError::NoEligibleWorker,
        }
    }

    /// The cost of the cheapest worker at its limit: about when one of its requests is done.
    fn retry_after(&self, request: &RouteRequest<'_>) -> Duration {
        let question = self.question(request, 0);
        let at_limit =
            self.fleet.iter().filter(|(w, s)| self.refusal(request, w, *s) == Some(Refusal::AtLimit));
        let costs =
            at_limit.map(|(w, _)| cost::of(&question, &self.candidate(request, w), &self.prices).total());
        let least = costs.fold(f64::INFINITY, f64::min).min(RETRY_AFTER.1.as_secs_f64());
        Duration::from_secs_f64(least.max(0.0)).clamp(RETRY_AFTER.0, RETRY_AFTER.1)
    }
}

/// A model's name for a message: what is longer than any real name is cut.
fn shortened(model: &str) -> String {
    match model.char_indices().nth(MODEL_CHARS) {
        Some((end, _)) => format!("{}…", &model[..end]),
        None => model.to_owned(),
    }
}

fn idle(slot: Slot, name_hash: u64) -> Candidate {
    Candidate {
        slot,
        name_hash,
        overlap_tokens: 0,
        lower_tokens: 0,
        wait_seconds: 0.0,
        queued_tokens: 0,
        requests: 0,
        context_tokens: 0,
        full: false,
    }
}
