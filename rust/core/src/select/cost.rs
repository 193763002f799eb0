//! What it costs to send a request to a worker, in seconds.

use crate::calibration::Calibration;
use crate::select::{Candidate, Question};

/// The terms of one candidate's cost, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Until the prefill that the worker already has is done.
    pub wait: f64,
    /// Until what lower tiers have of its prompt is back. The worker's other requests go on meanwhile.
    pub transfer: f64,
    /// The request's own prefill.
    pub prefill: f64,
    /// What that prefill delays the worker's other requests by.
    pub delay: f64,
    /// The share of decode steps that the worker's other requests take from this one.
    pub decode: f64,
}

impl Cost {
    /// The sum of the terms.
    pub fn total(&self) -> f64 {
        self.wait + self.transfer + self.prefill + self.delay + self.decode
    }

    /// Until the first token.
    pub fn first_token(&self) -> f64 {
        self.wait + self.transfer + self.prefill
    }
}

/// The cost of sending the request to this worker.
pub fn of(question: &Question, candidate: &Candidate, prices: &Calibration) -> Cost {
    let held = candidate.overlap_tokens + candidate.lower_tokens;
    let uncached = question.prompt_tokens - held.min(question.prompt_tokens);
    let prefill = prices.prefill(uncached, question.prompt_tokens);
    Cost {
        wait: candidate.wait_seconds,
        transfer: prices.transfer(candidate.lower_tokens),
        prefill,
        delay: prefill * f64::from(candidate.requests),
        decode: question.output_tokens * prices.decode_share(candidate.requests, candidate.context_tokens),
    }
}
