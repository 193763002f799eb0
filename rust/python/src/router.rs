//! The router as a Python object.

use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use warmroute_core::config::RouterConfig;
use warmroute_core::error::FleetError;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::ids::WorkerId;
use warmroute_core::router::{RouteRequest, Router, SharedRouter};
use warmroute_prompt::{Prompt, PromptError, Rung};

use crate::count::{self, Count};
use crate::decision::{PyDecision, PyExplanation};
use crate::lease::PyLease;
use crate::prompter::{PyPrompter, parse};
use crate::random::Random;
use crate::tokens::{self, Hashed};
use crate::worker::PyWorker;
use crate::{errors, options, stats};

/// Which worker should take this prompt: one prefix index, one ledger of load, for all callers and threads.
#[pyclass(frozen, module = "warmroute._core", name = "Router")]
pub(crate) struct PyRouter {
    router: SharedRouter,
    random: Random,
}

/// The arguments of a question that are not token ids.
struct Asked<'a> {
    tenant: &'a str,
    model: Option<&'a str>,
    max_tokens: Option<u32>,
    session: Option<&'a str>,
    lora: &'a str,
    cache_salt: &'a str,
    avoid: Option<Vec<String>>,
}

impl PyRouter {
    pub(crate) fn shared(&self) -> &SharedRouter {
        &self.router
    }

    /// Hashes the prompt, then asks with the GIL released while the router's lock is waited for.
    fn ask<T: Send>(
        &self,
        tokens: &Bound<'_, PyAny>,
        asked: &Asked<'_>,
        answer: impl FnOnce(&RouteRequest<'_>) -> T + Send,
    ) -> PyResult<T> {
        let py = tokens.py();
        let mut space = self.router.namespace(asked.model, asked.cache_salt);
        if !asked.lora.is_empty() {
            space.lora = asked.lora;
        }
        let Hashed { blocks, tokens: prompt_tokens } = tokens::hash(tokens, self.router.hasher(), &space)?;
        let avoid = self.ids(py, asked.avoid.as_deref().unwrap_or_default())?;
        let request = RouteRequest {
            blocks: &blocks,
            prompt_tokens,
            units: space.units,
            model: asked.model,
            tenant: asked.tenant,
            session: asked.session,
            max_output_tokens: asked.max_tokens,
            avoid: &avoid,
        };
        Ok(py.detach(|| answer(&request)))
    }

    fn ids(&self, py: Python<'_>, names: &[String]) -> PyResult<Vec<WorkerId>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        // No Python object is made while the lock is held: making one may run the garbage collector, which may
        // drop a lease, which takes the lock.
        let ids: Result<Vec<_>, _> = {
            let router = self.router.lock();
            names.iter().map(|name| router.fleet().get(name).map(|worker| worker.id)).collect()
        };
        ids.map_err(|error| errors::fleet(py, &error))
    }

    fn change<T>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut Router) -> Result<T, FleetError> + Send,
    ) -> PyResult<()> {
        let result = py.detach(|| change(&mut self.router.lock()).map(drop));
        result.map_err(|error| errors::fleet(py, &error))
    }
}

#[pymethods]
impl PyRouter {
    #[new]
    #[pyo3(signature = (**options))]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<PyRouter> {
        let mut config = RouterConfig::default();
        options::apply(py, options, |name, value| config.set(name, value))?;
        let router = SharedRouter::new(config, Instant::now()).map_err(|error| errors::config(py, &error))?;
        Ok(PyRouter { router, random: Random::new() })
    }

    #[getter]
    fn block_size(&self) -> usize {
        self.router.hasher().block_size()
    }

    #[getter]
    fn policy(&self) -> &'static str {
        self.router.lock().config().policy.name()
    }

    #[pyo3(signature = (
        name, *, url = "", kv_blocks = None, block_size = None, models = None,
        adapters = None, max_model_len = None, max_requests = None, dp_rank = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python method")]
    fn add_worker(
        &self,
        py: Python<'_>,
        name: String,
        url: &str,
        kv_blocks: Option<Count>,
        block_size: Option<Count>,
        models: Option<Vec<String>>,
        adapters: Option<Vec<String>>,
        max_model_len: Option<Count>,
        max_requests: Option<Count>,
        dp_rank: Option<Count>,
    ) -> PyResult<()> {
        let (url, models) = (url.to_owned(), models.unwrap_or_default());
        let spec = WorkerSpec {
            name,
            url,
            kv_blocks: count::get(kv_blocks),
            block_size: count::get(block_size),
            models,
            adapters: adapters.unwrap_or_default(),
            max_model_len: count::get(max_model_len),
            max_requests: count::get(max_requests),
            dp_rank: count::get(dp_rank),
        };
        self.change(py, |router| router.add_worker(spec))
    }

    #[pyo3(signature = (
        name, *, url = "", kv_blocks = None, block_size = None, models = None,
        adapters = None, max_model_len = None, max_requests = None, dp_rank = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python method")]
    fn update_worker(
        &self,
        py: Python<'_>,
        name: String,
        url: &str,
        kv_blocks: Option<Count>,
        block_size: Option<Count>,
        models: Option<Vec<String>>,
        adapters: Option<Vec<String>>,
        max_model_len: Option<Count>,
        max_requests: Option<Count>,
        dp_rank: Option<Count>,
    ) -> PyResult<()> {
        let (url, models) = (url.to_owned(), models.unwrap_or_default());
        let spec = WorkerSpec {
            name,
            url,
            kv_blocks: count::get(kv_blocks),
            block_size: count::get(block_size),
            models,
            adapters: adapters.unwrap_or_default(),
            max_model_len: count::get(max_model_len),
            max_requests: count::get(max_requests),
            dp_rank: count::get(dp_rank),
        };
        let result = py.detach(|| self.router.update_worker(spec));
        result.map_err(|error| errors::fleet(py, &error))
    }

    fn set_ready(&self, py: Python<'_>, name: &str, ready: bool) -> PyResult<()> {
        let result = py.detach(|| self.router.set_ready(name, ready));
        result.map_err(|error| errors::fleet(py, &error))
    }

    fn drain_worker(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.change(py, |router| router.drain_worker(name))
    }

    fn resume_worker(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.change(py, |router| router.resume_worker(name))
    }

    #[pyo3(signature = (name, *, others, kv_usage, valid_s))]
    fn observe_worker(
        &self,
        py: Python<'_>,
        name: &str,
        others: u32,
        kv_usage: f64,
        valid_s: f64,
    ) -> PyResult<()> {
        let valid = Duration::try_from_secs_f64(valid_s).unwrap_or_default();
        let now = self.router.time(Instant::now());
        self.change(py, |router| router.observe_worker(name, others, kv_usage, now, valid))
    }

    fn wants_hits(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        let wants = py.detach(|| self.router.lock().wants_hits(name));
        wants.map_err(|error| errors::fleet(py, &error))
    }

    fn observe_hits(&self, py: Python<'_>, name: &str, queries: u64, hits: u64) -> PyResult<()> {
        let now = self.router.time(Instant::now());
        self.change(py, |router| router.observe_hits(name, queries, hits, now))
    }

    /// What moves while a worker's requests run: active requests, signs of life so far, seconds of waiting.
    fn worker_activity(&self, py: Python<'_>, name: &str) -> PyResult<(u32, u64, f64)> {
        let activity = py.detach(|| {
            let router = self.router.lock();
            let slot = router.fleet().get(name)?.id.slot();
            let load = router.ledger().load(slot);
            Ok(load.map_or((0, 0, 0.0), |load| (load.requests(), load.moves(), load.wait_seconds())))
        });
        activity.map_err(|error: FleetError| errors::fleet(py, &error))
    }

    fn remove_worker(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let result = py.detach(|| self.router.remove_worker(name));
        result.map_err(|error| errors::fleet(py, &error))
    }

    #[getter]
    fn fleet_revision(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.router.lock().fleet().revision())
    }

    fn workers(&self, py: Python<'_>) -> Vec<PyWorker> {
        py.detach(|| {
            self.router.lock().fleet().iter().map(|(worker, state)| PyWorker::new(worker, state)).collect()
        })
    }

    #[pyo3(signature = (
        tokens, *, tenant = "", model = None, max_tokens = None, session = None, lora = "", cache_salt = "",
        avoid = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python method")]
    fn route(
        &self,
        py: Python<'_>,
        tokens: &Bound<'_, PyAny>,
        tenant: &str,
        model: Option<&str>,
        max_tokens: Option<Count>,
        session: Option<&str>,
        lora: &str,
        cache_salt: &str,
        avoid: Option<Vec<String>>,
    ) -> PyResult<PyLease> {
        let max_tokens = count::get(max_tokens);
        let asked = Asked { tenant, model, max_tokens, session, lora, cache_salt, avoid };
        let (now, random) = (self.router.time(Instant::now()), self.random.next());
        let lease = self.ask(tokens, &asked, |request| self.router.route(request, now, random))?;
        let lease = lease.map_err(|error| errors::route(py, &error))?;
        Ok(PyLease::new(lease, self.router.clone()))
    }

    #[pyo3(signature = (
        tokens, *, tenant = "", model = None, max_tokens = None, session = None, lora = "", cache_salt = "",
        avoid = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python method")]
    fn decide(
        &self,
        py: Python<'_>,
        tokens: &Bound<'_, PyAny>,
        tenant: &str,
        model: Option<&str>,
        max_tokens: Option<Count>,
        session: Option<&str>,
        lora: &str,
        cache_salt: &str,
        avoid: Option<Vec<String>>,
    ) -> PyResult<PyDecision> {
        let max_tokens = count::get(max_tokens);
        let asked = Asked { tenant, model, max_tokens, session, lora, cache_salt, avoid };
        let (now, random) = (self.router.time(Instant::now()), self.random.next());
        let decision = self.ask(tokens, &asked, |request| self.router.lock().decide(request, now, random))?;
        decision.map(|decision| PyDecision::from(&decision)).map_err(|error| errors::route(py, &error))
    }

    #[pyo3(signature = (
        tokens, *, tenant = "", model = None, max_tokens = None, session = None, lora = "", cache_salt = "",
        avoid = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python method")]
    fn explain(
        &self,
        py: Python<'_>,
        tokens: &Bound<'_, PyAny>,
        tenant: &str,
        model: Option<&str>,
        max_tokens: Option<Count>,
        session: Option<&str>,
        lora: &str,
        cache_salt: &str,
        avoid: Option<Vec<String>>,
    ) -> PyResult<PyExplanation> {
        let max_tokens = count::get(max_tokens);
        let asked = Asked { tenant, model, max_tokens, session, lora, cache_salt, avoid };
        let (now, random) = (self.router.time(Instant::now()), self.random.next());
        let explanation =
            self.ask(tokens, &asked, |request| self.router.lock().explain(request, now, random))?;
        PyExplanation::new(py, &explanation, Rung::ClientIds, None)
    }

    /// Explains a request's body as the HTTP router reads it.
    #[pyo3(signature = (prompter, endpoint, body, worker_tokens = None))]
    fn explain_body(
        &self,
        py: Python<'_>,
        prompter: &PyPrompter,
        endpoint: &str,
        body: &[u8],
        worker_tokens: Option<&[u8]>,
    ) -> PyResult<PyExplanation> {
        let invalid = |error: PromptError| errors::invalid(py, error.to_string());
        let body = parse(py, endpoint, body)?;
        let prompter = prompter.shared();
        let (now, random) = (self.router.time(Instant::now()), self.random.next());
        let explanation = py.detach(|| {
            let prompt = prompter.read(&body)?;
            let prompt = match (prompt.refused(), worker_tokens) {
                (Some(refused), Some(ids)) => Prompt::of_worker(ids.to_vec(), refused),
                _ => prompt,
            };
            let (user, salt) = (body.user(), body.cache_salt());
            let space = self.router.namespace(body.model(), salt.as_deref().unwrap_or_default());
            let mut blocks = Vec::new();
            prompt.hash_into(self.router.hasher(), &space, &mut blocks);
            let request = RouteRequest {
                blocks: &blocks,
                prompt_tokens: prompt.tokens(),
                units: prompt.units(),
                model: body.model(),
                tenant: user.as_deref().unwrap_or_default(),
                max_output_tokens: body.max_tokens(),
                ..RouteRequest::default()
            };
            Ok((self.router.lock().explain(&request, now, random), prompt.rung(), prompt.refused()))
        });
        let (explanation, rung, refused) = explanation.map_err(invalid)?;
        PyExplanation::new(py, &explanation, rung, refused)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.router.lock().stats());
        stats::router(py, &stats)
    }

    fn __repr__(&self) -> String {
        let router = self.router.lock();
        format!("Router(block_size={}, workers={})", router.config().block_size, router.fleet().len())
    }
}
