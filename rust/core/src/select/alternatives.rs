//! The policies beside priced affinity: to be chosen, and to be compared with.

use crate::calibration::Calibration;
use crate::config::RouterConfig;
use crate::select::{Candidate, Pick, Question, Reason, stable};

/// The tokens of a prompt for which the prefill rate of `sticky-until-saturated` is taken.
const RATE_PROMPT_TOKENS: u32 = 8192;

fn balance(index: usize) -> Pick {
    Pick { index, reason: Reason::Balance }
}

/// Warm or cold, by what the chosen worker holds.
fn affine(index: usize, candidates: &[Candidate]) -> Pick {
    let reason = if candidates[index].overlap_tokens > 0 { Reason::Warm } else { Reason::Cold };
    Pick { index, reason }
}

/// The place of the least key; `random` decides among equals, so that idle workers share.
fn least_by<K: PartialOrd>(
    candidates: &[Candidate],
    random: u64,
    keep: impl Fn(&Candidate) -> bool,
    key: impl Fn(&Candidate) -> K,
) -> Option<usize> {
    let mut best: Option<(K, u64, usize)> = None;
    for (place, candidate) in candidates.iter().enumerate().filter(|(_, candidate)| keep(candidate)) {
        let (key, rank) = (key(candidate), stable::rank(random, candidate.name_hash));
        let better =
            best.as_ref().is_none_or(|(least, its, _)| key < *least || (key == *least && rank > *its));
        if better {
            best = Some((key, rank, place));
        }
    }
    best.map(|(_, _, place)| place)
}

pub(super) fn round_robin(question: &Question, candidates: &[Candidate]) -> Option<Pick> {
    let place = question.turn.checked_rem(candidates.len() as u64)?;
    Some(balance(place as usize))
}

pub(super) fn least_requests(question: &Question, candidates: &[Candidate]) -> Option<Pick> {
    least_by(candidates, question.random, |_| true, |candidate| candidate.requests).map(balance)
}

pub(super) fn power_of_two(question: &Question, candidates: &[Candidate]) -> Option<Pick> {
    let count = candidates.len() as u64;
    let first = question.random.checked_rem(count)? as usize;
    // The second is another one, where there is one.
    let step = 1 + (question.random >> 32) % (count - 1).max(1);
    let second = ((first as u64 + step) % count) as usize;
    let place = if candidates[second].requests < candidates[first].requests { second } else { first };
    Some(balance(place))
}

/// Consistent hashing with bounded loads, on rendezvous ranks: the first worker by rank that is within the bound.
pub(super) fn consistent_hash(
    question: &Question,
    candidates: &[Candidate],
    config: &RouterConfig,
) -> Option<Pick> {
    let total: u64 = candidates.iter().map(|candidate| u64::from(candidate.requests)).sum();
    let bound = config.hash_load_factor * (total + 1) as f64 / candidates.len() as f64;
    candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| f64::from(candidate.requests) + 1.0 <= bound.ceil())
        .max_by_key(|(_, candidate)| stable::rank(question.head, candidate.name_hash))
        .map(|(place, _)| affine(place, candidates))
}

pub(super) fn session_sticky(question: &Question, candidates: &[Candidate]) -> Option<Pick> {
    let ranked = candidates.iter().enumerate();
    ranked
        .max_by_key(|(_, candidate)| stable::rank(question.session, candidate.name_hash))
        .map(|(place, _)| affine(place, candidates))
}

fn uncached(question: &Question, candidate: &Candidate) -> u64 {
    u64::from(question.prompt_tokens.saturating_sub(candidate.overlap_tokens))
}

/// (uncached tokens queued, this request's among them) × (active requests, this one among them).
pub(super) fn lmetric(question: &Question, candidates: &[Candidate]) -> Option<Pick> {
    let product = |candidate: &Candidate| {
        (candidate.queued_tokens + uncached(question, candidate)) * (u64::from(candidate.requests) + 1)
    };
    least_by(candidates, question.prefix, |_| true, product).map(|place| affine(place, candidates))
}

/// The warm workers until the best of them waits too much longer than the best of the others; then the fewest
/// uncached tokens.
pub(super) fn sticky_until_saturated(
    question: &Question,
    candidates: &[Candidate],
    config: &RouterConfig,
    prices: &Calibration,
) -> Option<Pick> {
    let rate = f64::from(RATE_PROMPT_TOKENS) / prices.cold(RATE_PROMPT_TOKENS);
    let least_overlap = config.sticky_share * f64::from(question.prompt_tokens);
    let warm = |candidate: &Candidate| {
        candidate.overlap_tokens > 0 && f64::from(candidate.overlap_tokens) >= least_overlap
    };
    let wait = |is_warm: bool| {
        let waits = candidates.iter().filter(|candidate| warm(candidate) == is_warm);
        waits.map(|candidate| candidate.queued_tokens as f64 / rate).fold(f64::INFINITY, f64::min)
    };
    let (warm_wait, other_wait) = (wait(true), wait(false));
    let stay = warm_wait.is_finite() && warm_wait - other_wait <= config.sticky_max_wait_ms as f64 / 1e3;
    let place = least_by(
        candidates,
        question.prefix,
        |candidate| !stay || warm(candidate),
        |candidate| candidate.queued_tokens + uncached(question, candidate),
    )?;
    let reason = match (stay, warm_wait.is_finite()) {
        (true, _) => Reason::Warm,
        (false, true) => Reason::Spill,
        (false, false) => Reason::Cold,
    };
    Some(Pick { index: place, reason })
}

/// The longest overlap where it is a large enough share of the prompt, and the fewest requests otherwise or while
/// the busiest worker is far from the idlest.
pub(super) fn cache_aware(
    question: &Question,
    candidates: &[Candidate],
    config: &RouterConfig,
) -> Option<Pick> {
    let loads = || candidates.iter().map(|candidate| candidate.requests);
    let (most, least) = (loads().max()?, loads().min()?);
    let out_of_balance =
        most - least > config.balance_abs && f64::from(most) > config.balance_rel * f64::from(least);
    let longest = candidates.iter().map(|candidate| candidate.overlap_tokens).max()?;
    if out_of_balance || f64::from(longest) <= config.cache_threshold * f64::from(question.prompt_tokens) {
        return least_requests(question, candidates);
    }
    least_by(candidates, question.random, |c| c.overlap_tokens == longest, |c| c.requests)
        .map(|index| Pick { index, reason: Reason::Warm })
}
