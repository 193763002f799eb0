//! What was predicted against what the workers report: how far off, and why.

use std::time::Duration;

use super::{Decision, RouteRequest, Router};
use crate::block::{BlockHash, Units};
use crate::select::Candidate;
use crate::time::Time;

/// Upper bounds of the buckets of errors, in blocks: what was cached less what was predicted. The last bucket has
/// everything above.
pub const ERROR_BUCKETS: [i64; 11] = [-1000, -100, -10, -2, -1, 0, 1, 10, 100, 1000, i64::MAX];

/// Reports in a row that are off by more than a block, each too high, after which a worker is suspect.
const SUSPECT_AFTER: u32 = 16;

/// A prediction older than this is not of a request that still waits to be prefilled.
const SETTLED: Duration = Duration::from_secs(5);

/// Blocks of a text that a worker may have none of, and yet hold all that it can of it: its tokens may have four
/// times as many bytes as ours are taken to have.
const TEXT_BLOCKS: u32 = 4;

/// Why fewer tokens were cached than were predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The worker evicted blocks between the decision and the prefill, or, where it sends no events, before.
    Evicted,
    /// Blocks were predicted, and had not been stored when the prefill began.
    NeverStored,
    /// Another worker had more, and was left because of its load. Predicted was what the chosen one has.
    ChosenForLoad,
    /// Events say that the worker held the blocks all the while: it saw other tokens.
    TokensDiffer,
    /// Events of the worker were missing.
    EventGap,
}

impl Loss {
    /// Every cause.
    pub const ALL: [Loss; 5] =
        [Loss::Evicted, Loss::NeverStored, Loss::ChosenForLoad, Loss::TokensDiffer, Loss::EventGap];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Evicted => "evicted",
            Loss::NeverStored => "never_stored",
            Loss::ChosenForLoad => "chosen_for_load",
            Loss::TokensDiffer => "tokens_differ",
            Loss::EventGap => "event_gap",
        }
    }
}

/// What is known of a worker's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Following {
    /// They are applied as they come.
    pub(crate) live: bool,
    /// Changes when some are lost, and while what is held is taken for a guess.
    pub(crate) losses: u32,
    /// How many blocks they said were evicted.
    pub(crate) evictions: u64,
    /// Prompts were sent there that no event names: they were matched as text.
    pub(crate) inexact: bool,
    /// Blocks that take room and are in the index once.
    pub(crate) copies: u32,
}

/// What a decision assumed, for the report that comes at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Assumed {
    made: Time,
    following: Following,
    /// The most that any worker that could have been chosen need not compute, in tokens.
    best_held_tokens: u32,
    /// Until when the last block of the overlap was predicted, where it was.
    predicted_until: Option<Time>,
    /// The last block of what a lower tier has.
    lower: Option<BlockHash>,
    /// Nothing was being prefilled on the worker that could have been what was predicted.
    settled: bool,
    /// The prompt's last block.
    last_block: Option<BlockHash>,
    /// The prompt's tokens are the worker's: events name its blocks, and reports count its tokens.
    exact: bool,
}

/// Reports of one worker against what was predicted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Reports by error, in the buckets of [`ERROR_BUCKETS`].
    pub errors: [u64; ERROR_BUCKETS.len()],
    /// Tokens lost, by the cause's place in [`Loss::ALL`].
    pub lost_tokens: [u64; Loss::ALL.len()],
    /// Reports in a row that were lower than predicted by more than a block.
    pub too_low: u32,
    /// The last report that a whole prefix was gone: when its decision was made, and its prefix.
    gone: Option<(Time, BlockHash)>,
}

impl Truth {
    /// Whether so many predictions in a row were wrong that something must be set wrongly.
    pub fn is_suspect(&self) -> bool {
        self.too_low >= SUSPECT_AFTER
    }

    fn observe(&mut self, error_blocks: i64) {
        let bucket = ERROR_BUCKETS.iter().position(|bound| error_blocks <= *bound);
        self.errors[bucket.unwrap_or(ERROR_BUCKETS.len() - 1)] += 1;
        self.too_low = if error_blocks < -1 { self.too_low.saturating_add(1) } else { 0 };
    }

    /// The worker's counters say that `tokens` were lost, which no reply told; again and again where it is `suspect`.
    pub(super) fn unseen(&mut self, loss: Loss, tokens: u32, suspect: bool) {
        self.lose(loss, tokens);
        if suspect {
            self.too_low = self.too_low.max(SUSPECT_AFTER);
        }
    }

    fn lose(&mut self, loss: Loss, tokens: u32) {
        self.lost_tokens[loss as usize] += u64::from(tokens);
    }
}

impl Router {
    /// The worker says how many prompt tokens it had cached for a decision.
    ///
    /// Where no event names the prompt, what it had less than predicted is taken from what is predicted for it. The
    /// tokens of a prompt that was matched as text are not the worker's: of those only that it had nothing counts.
    pub fn cached_tokens(&mut self, decision: &Decision, cached_tokens: u32) {
        self.stats.cached(decision, cached_tokens);
        let worker = decision.worker.id;
        if self.present(worker).is_err() {
            return;
        }
        self.hits[worker.slot.index()].told();
        let block_size = self.config.block_size;
        let predicted = decision.held_tokens();
        let exact = decision.assumed.exact;
        let comparable = exact || (cached_tokens == 0 && predicted > TEXT_BLOCKS * block_size);
        let lost = if comparable { predicted.saturating_sub(cached_tokens) } else { 0 };
        let loss = self.cause(decision, lost);
        let truth = &mut self.truths[worker.slot.index()];
        if comparable {
            truth.observe((i64::from(cached_tokens) - i64::from(predicted)) / i64::from(block_size));
        } else {
            truth.too_low = 0;
        }
        truth.lose(loss, lost);
        truth.lose(Loss::ChosenForLoad, decision.assumed.best_held_tokens.saturating_sub(predicted));
        if lost > 0 {
            self.correct_lower(decision, lost);
        }
        let named = exact && self.following[worker.slot.index()].live;
        if lost > block_size && !named {
            self.correct(decision, cached_tokens);
        }
    }

    /// What is assumed of the chosen worker, for [`Decision::assumed`].
    pub(super) fn assume(&self, request: &RouteRequest<'_>, chosen: &Candidate, now: Time) -> Assumed {
        let slot = chosen.slot;
        let last = |tokens: u32| {
            let last = (tokens / self.config.block_size).checked_sub(1)?;
            request.blocks.get(last as usize).copied()
        };
        let held = |candidate: &Candidate| candidate.overlap_tokens + candidate.lower_tokens;
        Assumed {
            made: now,
            following: self.following[slot.index()],
            best_held_tokens: self.candidates.iter().map(held).max().unwrap_or_default(),
            predicted_until: last(chosen.overlap_tokens)
                .and_then(|block| self.index.predicted_until(slot, block)),
            lower: last(held(chosen)).filter(|_| chosen.lower_tokens > 0),
            settled: self.ledger.load(slot).is_none_or(|load| load.prefilling() == 0),
            last_block: request.blocks.last().copied(),
            exact: request.units == Units::Tokens,
        }
    }

    fn cause(&self, decision: &Decision, lost: u32) -> Loss {
        let (then, now) = (decision.assumed.following, self.following[decision.worker.id.slot.index()]);
        let predicted = decision.overlap_tokens - decision.confirmed_tokens;
        match () {
            () if !then.live || !decision.assumed.exact => Loss::Evicted,
            () if !now.live || then.losses != now.losses => Loss::EventGap,
            () if lost <= decision.lower_tokens => Loss::Evicted,
            () if lost <= decision.lower_tokens + predicted => Loss::NeverStored,
            () if then.evictions != now.evictions => Loss::Evicted,
            () => Loss::TokensDiffer,
        }
    }

    /// Takes from a lower tier what was not brought back: not every connector says what it drops there.
    fn correct_lower(&mut self, decision: &Decision, lost: u32) {
        if let Some(block) = decision.assumed.lower {
            let blocks = lost.min(decision.lower_tokens).div_ceil(self.config.block_size);
            self.index.remove_lower(decision.worker.id.slot, block, blocks as usize);
        }
    }

    /// Takes from what is predicted for a worker what its report shows to be gone.
    ///
    /// An engine evicts what was used least recently: where a prefix is gone, so is what was used before it. Two
    /// prefixes in a row that are gone to the first block mean that the cache was emptied.
    fn correct(&mut self, decision: &Decision, cached_tokens: u32) {
        let slot = decision.worker.id.slot;
        let Assumed { made, predicted_until: Some(until), settled, last_block: Some(prefix), .. } =
            decision.assumed
        else {
            return;
        };
        let lifetime = Duration::from_millis(self.config.prediction_lifetime_ms);
        // What is still being prefilled is not gone, only late.
        if !settled && until.since(made).saturating_add(SETTLED) > lifetime {
            return;
        }
        self.index.drop_predictions_until(slot, until);
        let truth = &mut self.truths[slot.index()];
        if cached_tokens > 0 {
            truth.gone = None;
        } else if let Some((first, _)) = truth.gone.filter(|(_, gone)| *gone != prefix) {
            self.index.drop_predictions_until(slot, first.after(lifetime));
        } else {
            truth.gone = Some((made, prefix));
        }
    }
}
