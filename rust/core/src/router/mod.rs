//! Decide and book in one step.

#[cfg(test)]
mod begun;
mod candidates;
mod events;
mod explain;
mod hits;
mod others;
#[cfg(test)]
mod pieces;
mod served;
mod shared;
mod stats;
mod truth;
mod workers;

use std::sync::Arc;
use std::time::Duration;

pub use candidates::Refusal;
pub use explain::{CandidateView, Explanation};
pub use others::{Alternative, Others};
pub use shared::{Lease, SharedRouter};
pub use stats::{Stats, WorkerStats};
pub use truth::{ERROR_BUCKETS, Loss, Truth};

use crate::block::{BlockHash, BlockHasher, Namespace, Units};
use crate::calibration::Calibration;
use crate::config::RouterConfig;
use crate::error::{ConfigError, RouteError};
use crate::fleet::{Fleet, Worker};
use crate::ids::WorkerId;
use crate::load::ledger::{Booking, Ledger, Outcome, Reservation};
use crate::load::outputs::OutputMeans;
use crate::prefix::{Overlaps, PrefixIndex};
use crate::select::{self, Candidate, Reason, cost};
use crate::time::Time;
use hits::Hits;
use served::Served;
use truth::{Assumed, Following};

/// Index nodes that each decision looks at for predictions that ran out: the sweep keeps up with what decisions
/// insert, and none of them waits for it.
const EXPIRE_NODES: usize = 4;

/// A request as the decision sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouteRequest<'a> {
    /// The prompt's full blocks.
    pub blocks: &'a [BlockHash],
    /// The prompt's length in tokens; an estimate where `units` are bytes.
    pub prompt_tokens: u32,
    /// What the blocks were cut from.
    pub units: Units,
    /// The model's name; `None` takes any worker.
    pub model: Option<&'a str>,
    /// Whose request it is.
    pub tenant: &'a str,
    /// The session it belongs to, for `session-sticky`.
    pub session: Option<&'a str>,
    /// The most output tokens that the request allows.
    pub max_output_tokens: Option<u32>,
    /// Workers that must not be chosen.
    pub avoid: &'a [WorkerId],
}

/// The chosen worker, and what was expected of it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The worker.
    pub worker: Arc<Worker>,
    /// Leading tokens of the prompt that it is taken to hold: whole blocks, and never the last token.
    pub overlap_tokens: u32,
    /// Those of them that a KV event confirmed.
    pub confirmed_tokens: u32,
    /// The tokens after them that it can bring back from a lower tier.
    pub lower_tokens: u32,
    /// The prompt's length in tokens.
    pub prompt_tokens: u32,
    /// The time to the first token.
    pub predicted_ttft: Duration,
    /// The terms of its cost.
    pub cost: cost::Cost,
    /// Why it was chosen.
    pub reason: Reason,
    pub(crate) assumed: Assumed,
}

impl Decision {
    /// Tokens of the prompt that the worker need not compute: what a worker calls cached.
    pub fn held_tokens(&self) -> u32 {
        self.overlap_tokens + self.lower_tokens
    }
}

/// The prefix index, the ledger and the fleet: one object shared by every way in.
#[derive(Debug)]
pub struct Router {
    config: RouterConfig,
    prices: Calibration,
    fleet: Fleet,
    index: PrefixIndex,
    /// By slot, how often everything a worker holds was forgotten.
    clears: Vec<u32>,
    /// By slot.
    following: Vec<Following>,
    /// By slot.
    hits: Vec<Hits>,
    served: Served,
    truths: Vec<Truth>,
    ledger: Ledger,
    outputs: OutputMeans,
    stats: Stats,
    turn: u64,
    /// The latest moment that anyone told.
    now: Time,
    overlaps: Overlaps,
    candidates: Vec<Candidate>,
}

impl Router {
    /// A router without workers.
    ///
    /// # Errors
    /// [`ConfigError`] for a value outside its range.
    pub fn new(config: RouterConfig) -> Result<Router, ConfigError> {
        config.validate()?;
        Ok(Router {
            prices: config.prices(),
            fleet: Fleet::default(),
            index: PrefixIndex::new(usize::try_from(config.index_bytes).unwrap_or(usize::MAX)),
            clears: Vec::new(),
            following: Vec::new(),
            hits: Vec::new(),
            served: Served::default(),
            truths: Vec::new(),
            ledger: Ledger::default(),
            outputs: OutputMeans::default(),
            stats: Stats::default(),
            turn: 0,
            now: Time::ZERO,
            overlaps: Overlaps::default(),
            candidates: Vec::new(),
            config,
        })
    }

    /// The options in force.
    pub fn config(&self) -> &RouterConfig {
        &self.config
    }

    /// The hasher that callers cut their prompts with.
    pub fn hasher(&self) -> BlockHasher {
        BlockHasher::new(self.config.block_size, self.config.hash_seed)
    }

    /// The workers.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Open reservations and each worker's load.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Which worker holds which prefix.
    pub fn index(&self) -> &PrefixIndex {
        &self.index
    }

    /// What separates the blocks of a prompt from equal ones: the adapter, where `model` names one, and the salt.
    ///
    /// A model that a worker is known to serve does not: a worker has one, by whatever names, and is only asked for
    /// what it serves; its events do not name it.
    pub fn namespace<'a>(&self, model: Option<&'a str>, salt: &'a str) -> Namespace<'a> {
        let space = Namespace { salt, ..Namespace::default() };
        match model.map(|model| (model, self.served.is_adapter(model))) {
            Some((lora, Some(true))) => Namespace { lora, ..space },
            Some((model, None)) => Namespace { model, ..space },
            Some((_, Some(false))) | None => space,
        }
    }

    /// Chooses a worker and books nothing. The same question asked again has the same answer, but for `random`.
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn decide(
        &mut self,
        request: &RouteRequest<'_>,
        now: Time,
        random: u64,
    ) -> Result<Decision, RouteError> {
        let question = self.gather(request, now, random)?;
        let pick = select::pick(&question, &self.candidates, &self.config, &self.prices)
            .ok_or(RouteError::NoEligibleWorker)?;
        let candidate = &self.candidates[pick.index];
        let cost = cost::of(&question, candidate, &self.prices);
        let worker = self.fleet.at(candidate.slot).ok_or(RouteError::NoEligibleWorker)?;
        let confirmed = self.overlaps.get(candidate.slot).confirmed * self.config.block_size;
        Ok(Decision {
            worker: Arc::clone(worker),
            overlap_tokens: candidate.overlap_tokens,
            confirmed_tokens: confirmed.min(candidate.overlap_tokens),
            lower_tokens: candidate.lower_tokens,
            prompt_tokens: request.prompt_tokens,
            predicted_ttft: Duration::from_secs_f64(cost.first_token()),
            cost,
            reason: pick.reason,
            assumed: self.assume(request, candidate, now),
        })
    }

    /// Chooses a worker, books the load and credits the worker with the prompt's blocks, in one step: the next of a
    /// burst of identical prompts sees this one.
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn route(
        &mut self,
        request: &RouteRequest<'_>,
        now: Time,
        random: u64,
    ) -> Result<(Decision, Reservation), RouteError> {
        let decision = match self.decide(request, now, random) {
            Ok(decision) => decision,
            Err(error) => {
                self.stats.refused(&error);
                return Err(error);
            }
        };
        self.turn = self.turn.wrapping_add(1);
        self.stats.decided(&decision);
        self.keep_in_use();
        let slot = decision.worker.id.slot;
        let copies = matches!(decision.reason, Reason::Spill | Reason::Cold);
        let output = self.expected_output(request);
        let booking = Booking {
            worker: decision.worker.id,
            prefill_seconds: decision.cost.transfer + decision.cost.prefill,
            uncached_tokens: request.prompt_tokens - decision.held_tokens(),
            prompt_tokens: request.prompt_tokens,
            blocks: request.blocks,
            units: request.units,
            output_blocks: output as u64 / u64::from(self.config.block_size),
            copy_of: (copies && !request.blocks.is_empty()).then(|| candidates::prefix_key(request)),
        };
        let reservation = self.ledger.book(&booking, now);
        if !request.blocks.is_empty() {
            let lifetime = Duration::from_millis(self.config.prediction_lifetime_ms);
            self.index.predict(slot, request.blocks, now, now.after(lifetime));
            self.following[slot.index()].inexact |= request.units == Units::Bytes;
        }
        self.index.expire(now, EXPIRE_NODES);
        Ok((decision, reservation))
    }

    /// The first token of a reply came.
    pub fn first_token(&mut self, reservation: &Reservation, now: Time) {
        self.now = self.now.max(now);
        self.ledger.first_token(reservation, now);
    }

    /// A reply has `output_tokens` tokens so far.
    pub fn progress(&mut self, reservation: &Reservation, output_tokens: u32) {
        self.ledger.progress(reservation, output_tokens);
    }

    /// A request ended: its load goes.
    pub fn close(&mut self, reservation: Reservation, tenant: &str, outcome: Outcome) {
        if let Some(ended) = self.ledger.close(reservation, outcome, self.now)
            && outcome == Outcome::Finished
        {
            self.free(&ended);
            if self.present(ended.worker).is_ok() {
                self.hits[ended.worker.slot.index()].finished(&ended);
            }
            if ended.output_tokens > 0 {
                self.outputs.observe(tenant, ended.output_tokens);
            }
        }
        self.stats.closed(outcome);
    }

    fn expected_output(&self, request: &RouteRequest<'_>) -> f64 {
        self.outputs.expect(request.tenant, request.max_output_tokens, self.config.expected_output_tokens)
    }

    fn kv_blocks(&self, worker: &Worker) -> u32 {
        worker.spec.kv_blocks.unwrap_or(self.config.default_kv_blocks)
    }
}
