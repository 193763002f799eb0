//! A lease as a Python object and context manager.

use std::time::Instant;

use parking_lot::Mutex;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyType;
use warmroute_core::load::ledger::Outcome;
use warmroute_core::router::{Decision, Lease, SharedRouter};

use crate::count::Count;
use crate::errors;

const OUTCOMES: [(&str, Outcome); 5] = [
    ("finished", Outcome::Finished),
    ("failed", Outcome::Failed),
    ("unreachable", Outcome::Unreachable),
    ("cancelled", Outcome::Cancelled),
    ("abandoned", Outcome::Abandoned),
];

/// The outcome of this name.
pub(crate) fn outcome(py: Python<'_>, name: &str) -> PyResult<Outcome> {
    OUTCOMES.iter().find(|(known, _)| *known == name).map(|(_, outcome)| *outcome).ok_or_else(|| {
        let names = OUTCOMES.map(|(name, _)| name).join(", ");
        errors::invalid(py, format!("outcome {name:?} is not known: use one of {names}"))
    })
}

/// The booking of a request on its worker. Its load is given back when it is closed, or dropped.
#[pyclass(frozen, module = "warmroute._core", name = "Lease")]
pub(crate) struct PyLease {
    lease: Mutex<Lease>,
    decision: Decision,
    router: SharedRouter,
}

impl PyLease {
    pub(crate) fn new(lease: Lease, router: SharedRouter) -> PyLease {
        PyLease { decision: lease.decision().clone(), lease: Mutex::new(lease), router }
    }

    /// Does something that takes the router's lock, for which the GIL must not be held up.
    fn with<T: Send>(&self, py: Python<'_>, act: impl FnOnce(&mut Lease) -> T + Send) -> T {
        py.detach(|| act(&mut self.lease.lock()))
    }
}

#[pymethods]
impl PyLease {
    #[getter]
    fn worker(&self) -> &str {
        &self.decision.worker.spec.name
    }

    #[getter]
    fn url(&self) -> &str {
        &self.decision.worker.spec.url
    }

    #[getter]
    fn dp_rank(&self) -> Option<u32> {
        self.decision.worker.spec.dp_rank
    }

    #[getter]
    fn overlap_tokens(&self) -> u32 {
        self.decision.overlap_tokens
    }

    #[getter]
    fn confirmed_tokens(&self) -> u32 {
        self.decision.confirmed_tokens
    }

    #[getter]
    fn lower_tokens(&self) -> u32 {
        self.decision.lower_tokens
    }

    #[getter]
    fn prompt_tokens(&self) -> u32 {
        self.decision.prompt_tokens
    }

    #[getter]
    fn predicted_ttft(&self) -> f64 {
        self.decision.predicted_ttft.as_secs_f64()
    }

    #[getter]
    fn reason(&self) -> &'static str {
        self.decision.reason.name()
    }

    #[getter]
    fn is_open(&self) -> bool {
        self.lease.lock().is_open()
    }

    fn first_token(&self, py: Python<'_>) {
        let now = self.router.time(Instant::now());
        self.with(py, |lease| lease.first_token(now));
    }

    fn progress(&self, py: Python<'_>, output_tokens: Count) {
        self.with(py, |lease| lease.progress(output_tokens.0));
    }

    fn cached_tokens(&self, py: Python<'_>, tokens: Count) {
        self.with(py, |lease| lease.cached_tokens(tokens.0));
    }

    #[pyo3(signature = (outcome = "finished"))]
    fn close(&self, py: Python<'_>, outcome: &str) -> PyResult<bool> {
        let outcome = self::outcome(py, outcome)?;
        Ok(self.with(py, |lease| lease.close(outcome)))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind, error, trace, /))]
    fn __exit__(
        &self,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (error, trace);
        let py = kind.py();
        let outcome = if kind.is_none() {
            Outcome::Finished
        } else if kind.cast::<PyType>()?.is_subclass_of::<PyException>()? {
            Outcome::Failed
        } else {
            // A task that is cancelled, a generator that is closed, Ctrl-C: whoever asked left.
            Outcome::Cancelled
        };
        self.with(py, |lease| lease.close(outcome));
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!(
            "Lease(worker={:?}, overlap_tokens={}, prompt_tokens={}, reason={:?}, is_open={})",
            self.worker(),
            self.overlap_tokens(),
            self.prompt_tokens(),
            self.reason(),
            if self.is_open() { "True" } else { "False" }
        )
    }
}
