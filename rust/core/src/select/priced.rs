//! Priced affinity, the default policy.

use crate::calibration::Calibration;
use crate::config::RouterConfig;
use crate::select::{Candidate, Pick, Question, Reason, cost, stable};

/// Copies of a prefix that may be in the making at once, beside one for each finished copy: a leader, and a
/// second one where waiting for the leader costs more than computing the prefix again. A burst of a cold prefix
/// stays on two workers, and a hot prefix that is in use still spreads geometrically.
const COPIES_AT_ONCE: u32 = 2;

struct Priced {
    place: usize,
    cost: f64,
    rank: u64,
    worth: f64,
    warm: bool,
}

/// The cheapest warm worker, unless another one is cheaper by more than a margin; without a warm one, the stable
/// pick among all.
pub(super) fn pick(
    question: &Question,
    candidates: &[Candidate],
    config: &RouterConfig,
    prices: &Calibration,
) -> Option<Pick> {
    let priced = price(question, candidates, config, prices);
    let cold = prices.cold(question.prompt_tokens);
    let band = config.stable_band * cold;
    let stable_pick = |warm: bool| {
        stable::within(priced.iter().filter(|p| p.warm == warm).map(|p| (p.place, p.cost, p.rank)), band)
    };
    let Some(best) = cheapest(&priced) else {
        return stable_pick(false).map(|index| Pick { index, reason: Reason::Cold });
    };
    let holders = priced.iter().filter(|p| p.warm).count() as u32;
    if may_copy(question, holders)
        && let Some(index) = stable_pick(false)
        && let Some(other) = priced.iter().find(|p| p.place == index)
        && best.cost - other.cost
            > (config.spill_margin_ms as f64 / 1e3).max(config.spill_cold_prefills * cold)
    {
        return Some(Pick { index, reason: Reason::Spill });
    }
    Some(Pick { index: best.place, reason: Reason::Warm })
}

/// The place of the cheapest warm candidate.
pub(super) fn cheapest_warm(
    question: &Question,
    candidates: &[Candidate],
    config: &RouterConfig,
    prices: &Calibration,
) -> Option<usize> {
    let priced = price(question, candidates, config, prices);
    cheapest(&priced).map(|p| p.place)
}

fn cheapest(priced: &[Priced]) -> Option<&Priced> {
    priced.iter().filter(|p| p.warm).min_by(|a, b| a.cost.total_cmp(&b.cost))
}

/// The candidates with their costs; the full ones only where every one is full.
fn price(
    question: &Question,
    candidates: &[Candidate],
    config: &RouterConfig,
    prices: &Calibration,
) -> Vec<Priced> {
    let all_full = candidates.iter().all(|candidate| candidate.full);
    let usable = || candidates.iter().enumerate().filter(|(_, candidate)| all_full || !candidate.full);
    let length = f64::from(question.prompt_tokens);
    let mut priced: Vec<Priced> = usable()
        .map(|(place, candidate)| Priced {
            place,
            cost: cost::of(question, candidate, prices).total(),
            rank: stable::rank(question.prefix, candidate.name_hash),
            worth: worth(candidate, config),
            warm: false,
        })
        .collect();
    let longest = priced.iter().map(|priced| priced.worth).fold(0.0, f64::max);
    let least = (config.warm_share * length).max(longest - config.warm_slack * length);
    priced.iter_mut().for_each(|priced| priced.warm = priced.worth > 0.0 && priced.worth >= least);
    priced
}

/// Tokens that a worker saves: one in a lower tier saves a part of its prefill.
fn worth(candidate: &Candidate, config: &RouterConfig) -> f64 {
    let device = f64::from(candidate.overlap_tokens);
    if candidate.lower_tokens == 0 {
        return device;
    }
    device + f64::from(candidate.lower_tokens) * (1.0 - config.lower_tier_price)
}

fn may_copy(question: &Question, holders: u32) -> bool {
    let finished = holders.saturating_sub(question.copies_in_progress);
    question.copies_in_progress < COPIES_AT_ONCE + finished
}
