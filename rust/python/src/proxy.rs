//! The HTTP data plane as a Python object.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use warmroute_core::admit::RetryBudget;
use warmroute_core::router::SharedRouter;
use warmroute_prompt::{Endpoint, Prompter, Refused, Rung};
use warmroute_proxy::{
    Asked, Control, ControlReply, ControlRequest, Ending, Histogram, Kind, Phase, Proxy, ProxyConfig,
    ProxyError, ProxyStats, RefusalKind, RetryReason,
};

use crate::prompter::PyPrompter;
use crate::retries::PyRetryBudget;
use crate::router::PyRouter;
use crate::stats::fields;
use crate::{errors, options};

/// The HTTP router: forwards each request to the worker that the router chooses, without the GIL.
#[pyclass(frozen, module = "warmroute._core", name = "Proxy")]
pub(crate) struct PyProxy {
    host: String,
    port: u16,
    config: ProxyConfig,
    router: SharedRouter,
    prompter: Arc<Prompter>,
    retries: Arc<RetryBudget>,
    control: Arc<PyControl>,
    running: Mutex<Option<Arc<Proxy>>>,
}

/// A Python callable that answers what is not forwarded.
struct PyControl(Py<PyAny>);

impl Control for PyControl {
    fn handle(&self, request: ControlRequest) -> ControlReply {
        let answer = Python::attach(|py| self.ask(py, &request));
        answer.unwrap_or_else(|error| {
            Python::attach(|py| error.write_unraisable(py, None));
            ControlReply {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                content_type: "text/plain".to_owned(),
                headers: HeaderMap::new(),
                body: Bytes::from_static(b"internal error"),
            }
        })
    }
}

impl PyControl {
    fn ask(&self, py: Python<'_>, request: &ControlRequest) -> PyResult<ControlReply> {
        let body = PyBytes::new(py, &request.body);
        let headers = PyDict::new(py);
        for (name, value) in &request.headers {
            headers.set_item(name.as_str(), String::from_utf8_lossy(value.as_bytes()))?;
        }
        let asked = (request.method.as_str(), &request.path, &request.query, body, headers);
        let answer = self.0.bind(py).call1(asked)?.cast_into::<PyTuple>()?;
        let (status, content_type, body): (u16, String, Bound<'_, PyBytes>) =
            answer.get_slice(0, 3).extract()?;
        let headers = match answer.get_item(3) {
            Ok(given) => header_map(given.extract()?),
            Err(_) => HeaderMap::new(),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Ok(ControlReply { status, content_type, headers, body: Bytes::copy_from_slice(body.as_bytes()) })
    }
}

/// What is no header is left out.
fn header_map(given: HashMap<String, String>) -> HeaderMap {
    let read =
        |(name, value): (String, String)| Some((name.parse::<HeaderName>().ok()?, value.parse().ok()?));
    given.into_iter().filter_map(read).collect()
}

#[pymethods]
impl PyProxy {
    #[new]
    #[pyo3(signature = (router, prompter, *, control, host = "127.0.0.1", port = 0, **options))]
    fn new(
        py: Python<'_>,
        router: &PyRouter,
        prompter: &PyPrompter,
        control: Py<PyAny>,
        host: &str,
        port: u16,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyProxy> {
        let mut config = ProxyConfig::default();
        options::apply(py, options, |name, value| config.set(name, value))?;
        Ok(PyProxy {
            host: host.to_owned(),
            port,
            retries: config.retry_budget(),
            config,
            router: router.shared().clone(),
            prompter: Arc::clone(prompter.shared()),
            control: Arc::new(PyControl(control)),
            running: Mutex::new(None),
        })
    }

    /// Serves from now on, and says on which port. Once it runs, says the port again.
    fn start(&self, py: Python<'_>) -> PyResult<u16> {
        let mut running = self.running.lock();
        if let Some(proxy) = &*running {
            return Ok(proxy.addr().port());
        }
        let control = Arc::clone(&self.control);
        let proxy = Proxy::start(
            &self.host,
            self.port,
            self.config.clone(),
            self.router.clone(),
            Arc::clone(&self.prompter),
            Arc::clone(&self.retries),
            control,
        );
        let proxy = proxy.map_err(|error| start_error(py, &error, &self.host, self.port))?;
        let port = proxy.addr().port();
        *running = Some(Arc::new(proxy));
        Ok(port)
    }

    /// What its retries are taken from.
    #[getter]
    fn retry_budget(&self) -> PyRetryBudget {
        PyRetryBudget(Arc::clone(&self.retries))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let proxy = self.running.lock().clone();
        stats(py, &proxy.map(|proxy| proxy.stats()).unwrap_or_default())
    }

    /// The ids that a worker gave for a body before; nobody is asked.
    fn worker_tokens<'py>(
        &self,
        py: Python<'py>,
        endpoint: &str,
        body: &[u8],
    ) -> Option<Bound<'py, PyBytes>> {
        let proxy = self.running.lock().clone()?;
        let ids = proxy.worker_tokens(Endpoint::of_path(endpoint)?, body)?;
        Some(PyBytes::new(py, &ids))
    }

    fn drain(&self, py: Python<'_>, within_s: f64) -> bool {
        let within = Duration::try_from_secs_f64(within_s).unwrap_or_default();
        let proxy = self.running.lock().clone();
        py.detach(|| proxy.is_none_or(|proxy| proxy.drain(within)))
    }

    fn stop(&self, py: Python<'_>) {
        let proxy = self.running.lock().clone();
        py.detach(|| {
            if let Some(proxy) = proxy {
                proxy.stop();
            }
        });
    }
}

fn start_error(py: Python<'_>, error: &ProxyError, host: &str, port: u16) -> PyErr {
    match error {
        ProxyError::Config(error) => errors::config(py, error),
        ProxyError::Host { .. } => errors::raise(py, "ConfigError", ("host", host, error.to_string())),
        ProxyError::Listen { .. } => errors::raise(py, "ConfigError", ("port", port, error.to_string())),
        other => pyo3::exceptions::PyOSError::new_err(other.to_string()),
    }
}

fn stats<'py>(py: Python<'py>, stats: &ProxyStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = fields!(py, stats;
        retries_denied, encoded_elsewhere, stale_connections, bytes_received, bytes_sent, connections, connections_open,
        requests_open, worker_connects, worker_connect_failures, worker_reuses, timeouts, worker_tokens_bytes);
    let requests = PyDict::new(py);
    for (kind, row) in Kind::ALL.iter().zip(&stats.requests) {
        requests.set_item(kind.name(), named(py, Ending::ALL.iter().map(|ending| ending.name()), row)?)?;
    }
    dict.set_item("requests", requests)?;
    dict.set_item("prompts", named(py, Rung::ALL.iter().map(|rung| rung.as_str()), &stats.prompts)?)?;
    dict.set_item("inexact", named(py, Refused::ALL.iter().map(|each| each.as_str()), &stats.inexact)?)?;
    dict.set_item("asked", named(py, Asked::ALL.iter().map(|asked| asked.name()), &stats.asked)?)?;
    dict.set_item("departures", named(py, Phase::ALL.iter().map(|phase| phase.name()), &stats.departures)?)?;
    dict.set_item("retries", named(py, RetryReason::ALL.iter().map(|each| each.name()), &stats.retries)?)?;
    dict.set_item("refusals", named(py, RefusalKind::ALL.iter().map(|kind| kind.name()), &stats.refusals)?)?;
    for (name, times) in [("ttft", &stats.ttft), ("duration", &stats.duration), ("decision", &stats.decision)]
    {
        dict.set_item(name, histogram(py, times)?)?;
    }
    Ok(dict)
}

fn named<'py>(
    py: Python<'py>,
    names: impl Iterator<Item = &'static str>,
    counts: &[u64],
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, count) in names.zip(counts) {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}

fn histogram<'py>(py: Python<'py>, times: &Histogram) -> PyResult<Bound<'py, PyDict>> {
    let dict = fields!(py, times; counts, sum_seconds);
    dict.set_item("bounds", times.bounds.to_vec())?;
    Ok(dict)
}
