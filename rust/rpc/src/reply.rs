//! What the core decided, as messages.

use std::time::Duration;

use warmroute_core::fleet::Worker;
use warmroute_core::router::{Alternative, CandidateView, Decision, Others};
use warmroute_core::select::Reason;
use warmroute_core::select::cost::Cost;
use warmroute_prompt::Rung;

use crate::pb;

pub(crate) fn decision(decision: &Decision, others: &Others, rung: Rung) -> pb::Decision {
    pb::Decision {
        worker: Some(worker(&decision.worker)),
        alternatives: others.alternatives.iter().map(alternative).collect(),
        prompt_tokens: decision.prompt_tokens,
        overlap_tokens: decision.overlap_tokens,
        confirmed_tokens: decision.confirmed_tokens,
        predicted_ttft_ms: decision.predicted_ttft.as_secs_f64() * 1e3,
        reason: reason(decision.reason).into(),
        spill: others.left.as_ref().map(|left| pb::Spill {
            left: Some(worker(&left.worker)),
            overlap_tokens: left.overlap_tokens,
            wait_seconds: left.cost.wait,
            cost_seconds: left.cost.total(),
            chosen_cost_seconds: decision.cost.total(),
        }),
        rung: rung_of(rung).into(),
        lower_tokens: decision.lower_tokens,
    }
}

fn alternative(alternative: &Alternative) -> pb::Alternative {
    pb::Alternative {
        worker: Some(worker(&alternative.worker)),
        overlap_tokens: alternative.overlap_tokens,
        predicted_ttft_ms: alternative.cost.first_token() * 1e3,
        cost_seconds: alternative.cost.total(),
    }
}

fn worker(worker: &Worker) -> pb::WorkerRef {
    pb::WorkerRef {
        name: worker.spec.name.clone(),
        url: worker.spec.url.clone(),
        data_parallel_rank: worker.spec.dp_rank,
    }
}

fn reason(reason: Reason) -> pb::Reason {
    match reason {
        Reason::Warm => pb::Reason::Warm,
        Reason::Spill => pb::Reason::Spill,
        Reason::Cold => pb::Reason::Cold,
        Reason::Balance => pb::Reason::Balance,
    }
}

fn rung_of(rung: Rung) -> pb::Rung {
    match rung {
        Rung::ClientIds => pb::Rung::ClientIds,
        Rung::Local => pb::Rung::Local,
        Rung::Media => pb::Rung::Media,
        Rung::Worker => pb::Rung::Worker,
        Rung::Text => pb::Rung::Text,
        Rung::LoadOnly => pb::Rung::LoadOnly,
    }
}

pub(crate) fn candidate(view: &CandidateView) -> pb::Candidate {
    pb::Candidate {
        worker: Some(worker(&view.worker)),
        state: view.state.name().to_owned(),
        refusal: view.refusal.map(|refusal| refusal.name().to_owned()).unwrap_or_default(),
        overlap_tokens: view.overlap_tokens,
        confirmed_tokens: view.confirmed_tokens,
        requests: view.requests,
        context_tokens: view.context_tokens,
        full: view.full,
        cost: Some(cost(&view.cost)),
        lower_tokens: view.lower_tokens,
    }
}

fn cost(cost: &Cost) -> pb::Cost {
    let Cost { wait, transfer, prefill, delay, decode } = *cost;
    pb::Cost { wait, prefill, delay, decode, total: cost.total(), transfer }
}

/// A lease time as messages have it; the longest that they can say where it is longer.
pub(crate) fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
