//! Decisions and explanations as Python objects.

use pyo3::prelude::*;
use warmroute_core::router::{CandidateView, Decision, Explanation};
use warmroute_core::select::cost::Cost;
use warmroute_prompt::{Refused, Rung};

use crate::errors;

/// The chosen worker, and what was expected of it.
#[pyclass(frozen, module = "warmroute._core", name = "Decision", get_all)]
pub(crate) struct PyDecision {
    worker: String,
    url: String,
    dp_rank: Option<u32>,
    overlap_tokens: u32,
    confirmed_tokens: u32,
    lower_tokens: u32,
    prompt_tokens: u32,
    predicted_ttft: f64,
    reason: &'static str,
}

impl From<&Decision> for PyDecision {
    fn from(decision: &Decision) -> PyDecision {
        let spec = &decision.worker.spec;
        PyDecision {
            worker: spec.name.clone(),
            url: spec.url.clone(),
            dp_rank: spec.dp_rank,
            overlap_tokens: decision.overlap_tokens,
            confirmed_tokens: decision.confirmed_tokens,
            lower_tokens: decision.lower_tokens,
            prompt_tokens: decision.prompt_tokens,
            predicted_ttft: decision.predicted_ttft.as_secs_f64(),
            reason: decision.reason.name(),
        }
    }
}

#[pymethods]
impl PyDecision {
    fn __repr__(&self) -> String {
        format!(
            "Decision(worker={:?}, overlap_tokens={}, prompt_tokens={}, predicted_ttft={:.3}, reason={:?})",
            self.worker, self.overlap_tokens, self.prompt_tokens, self.predicted_ttft, self.reason
        )
    }
}

/// The terms of a cost, in seconds.
#[pyclass(frozen, module = "warmroute._core", name = "Cost", get_all)]
#[derive(Clone, Copy)]
pub(crate) struct PyCost {
    wait: f64,
    transfer: f64,
    prefill: f64,
    delay: f64,
    decode: f64,
    total: f64,
}

impl From<Cost> for PyCost {
    fn from(cost: Cost) -> PyCost {
        let Cost { wait, transfer, prefill, delay, decode } = cost;
        PyCost { wait, transfer, prefill, delay, decode, total: cost.total() }
    }
}

#[pymethods]
impl PyCost {
    fn __repr__(&self) -> String {
        format!(
            "Cost(wait={:.4}, transfer={:.4}, prefill={:.4}, delay={:.4}, decode={:.4}, total={:.4})",
            self.wait, self.transfer, self.prefill, self.delay, self.decode, self.total
        )
    }
}

/// One worker's part in a decision.
#[pyclass(frozen, module = "warmroute._core", name = "Candidate", get_all)]
pub(crate) struct PyCandidate {
    worker: String,
    state: &'static str,
    refusal: Option<&'static str>,
    overlap_tokens: u32,
    confirmed_tokens: u32,
    lower_tokens: u32,
    requests: u32,
    context_tokens: u64,
    full: bool,
    cost: PyCost,
}

impl From<&CandidateView> for PyCandidate {
    fn from(view: &CandidateView) -> PyCandidate {
        PyCandidate {
            worker: view.worker.spec.name.clone(),
            state: view.state.name(),
            refusal: view.refusal.map(|refusal| refusal.name()),
            overlap_tokens: view.overlap_tokens,
            confirmed_tokens: view.confirmed_tokens,
            lower_tokens: view.lower_tokens,
            requests: view.requests,
            context_tokens: view.context_tokens,
            full: view.full,
            cost: view.cost.into(),
        }
    }
}

#[pymethods]
impl PyCandidate {
    fn __repr__(&self) -> String {
        format!(
            "Candidate(worker={:?}, refusal={:?}, overlap_tokens={}, requests={}, cost={:.4})",
            self.worker, self.refusal, self.overlap_tokens, self.requests, self.cost.total
        )
    }
}

/// Where a request would go, and every worker's part in it.
#[pyclass(frozen, module = "warmroute._core", name = "Explanation", get_all)]
pub(crate) struct PyExplanation {
    decision: Option<Py<PyDecision>>,
    error: Option<Py<PyAny>>,
    rung: &'static str,
    inexact: Option<&'static str>,
    inexact_because: Option<String>,
    candidates: Vec<Py<PyCandidate>>,
}

impl PyExplanation {
    /// `rung` is how the prompt was had, and `refused` why not from here.
    pub(crate) fn new(
        py: Python<'_>,
        explanation: &Explanation,
        rung: Rung,
        refused: Option<Refused>,
    ) -> PyResult<PyExplanation> {
        let candidates = explanation.candidates.iter().map(|view| Py::new(py, PyCandidate::from(view)));
        let (decision, error) = match &explanation.decision {
            Ok(decision) => (Some(Py::new(py, PyDecision::from(decision))?), None),
            Err(error) => (None, Some(errors::route(py, error).into_value(py).into_any())),
        };
        Ok(PyExplanation {
            decision,
            error,
            rung: rung.as_str(),
            inexact: refused.map(Refused::as_str),
            inexact_because: refused.map(|refused| refused.to_string()),
            candidates: candidates.collect::<PyResult<_>>()?,
        })
    }
}
