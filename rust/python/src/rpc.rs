//! The gRPC interface as a Python object: bytes in, bytes out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use warmroute_core::time::Time;
use warmroute_rpc::leases::StreamId;
use warmroute_rpc::{Asked, Failure, Service, ServiceOptions};

use crate::errors;
use crate::prompter::PyPrompter;
use crate::random::Random;
use crate::retries::PyRetryBudget;
use crate::router::PyRouter;
use crate::rpc_generation::PyGeneration;
use crate::stats::fields;

/// Messages from this many bytes on are read without the GIL; for shorter ones giving it up costs more.
const RELEASE_BYTES: usize = 16 * 1024;

/// Answers the messages of `warmroute.v1.Router`.
#[pyclass(frozen, module = "warmroute._core", name = "RpcService")]
pub(crate) struct PyRpcService {
    service: Arc<Service>,
    random: Random,
}

impl PyRpcService {
    fn now(&self) -> Time {
        self.service.router().time(Instant::now())
    }
}

/// Reads a message where it lies: no byte of it is copied.
fn message(bytes: PyBackedBytes) -> Bytes {
    Bytes::from_owner(bytes)
}

/// Does something with a message; without the GIL where it is long.
fn work<T: Send>(py: Python<'_>, request: PyBackedBytes, work: impl FnOnce(Bytes) -> T + Send) -> T {
    let long = request.len() >= RELEASE_BYTES;
    let request = message(request);
    // The last owner goes with the GIL: giving a Python object back without it costs more.
    let owner = request.clone();
    let result = if long { py.detach(|| work(request)) } else { work(request) };
    drop(owner);
    result
}

fn answer<'py>(py: Python<'py>, answer: Result<Vec<u8>, Failure>) -> PyResult<Bound<'py, PyBytes>> {
    answer.map(|bytes| PyBytes::new(py, &bytes)).map_err(|failure| errors::failure(py, &failure))
}

#[pymethods]
impl PyRpcService {
    #[new]
    #[pyo3(signature = (router, prompter, retry_budget, *, max_reservations, lease_time_s))]
    fn new(
        router: &PyRouter,
        prompter: &PyPrompter,
        retry_budget: &PyRetryBudget,
        max_reservations: usize,
        lease_time_s: f64,
    ) -> PyRpcService {
        let lease_time = Duration::try_from_secs_f64(lease_time_s).unwrap_or_default();
        let options = ServiceOptions { max_reservations, lease_time };
        let (prompter, retries) = (Arc::clone(prompter.shared()), Arc::clone(&retry_budget.0));
        let service = Service::new(router.shared().clone(), prompter, retries, options);
        PyRpcService { service: Arc::new(service), random: Random::new() }
    }

    #[pyo3(signature = (request, length, *, on_stream = false))]
    fn takes_long(&self, request: PyBackedBytes, length: usize, on_stream: bool) -> bool {
        self.service.takes_long(&message(request), length, on_stream)
    }

    fn route<'py>(&self, py: Python<'py>, request: PyBackedBytes) -> PyResult<Bound<'py, PyBytes>> {
        let random = self.random.next();
        let routed = work(py, request, |request| {
            let asked = self.service.read_route(request)?;
            self.service.route(&asked, self.now(), random)
        });
        answer(py, routed)
    }

    /// Reads and hashes a prompt, for a thread of its own; `route_read` decides.
    fn read_route(&self, py: Python<'_>, request: PyBackedBytes) -> PyResult<PyAsked> {
        let request = message(request);
        let asked = py.detach(|| self.service.read_route(request));
        asked.map(PyAsked).map_err(|failure| errors::failure(py, &failure))
    }

    fn route_read<'py>(&self, py: Python<'py>, asked: &PyAsked) -> PyResult<Bound<'py, PyBytes>> {
        let random = self.random.next();
        answer(py, self.service.route(&asked.0, self.now(), random))
    }

    fn report<'py>(&self, py: Python<'py>, request: PyBackedBytes) -> PyResult<Bound<'py, PyBytes>> {
        answer(py, self.service.report(message(request), self.now()))
    }

    fn decide<'py>(&self, py: Python<'py>, request: PyBackedBytes) -> PyResult<Bound<'py, PyBytes>> {
        let random = self.random.next();
        let decided = work(py, request, |request| self.service.decide(request, self.now(), random));
        answer(py, decided)
    }

    fn explain<'py>(&self, py: Python<'py>, request: PyBackedBytes) -> PyResult<Bound<'py, PyBytes>> {
        let (request, random) = (message(request), self.random.next());
        let explained = py.detach(|| self.service.explain(request, self.now(), random));
        answer(py, explained)
    }

    fn generate(&self, py: Python<'_>, request: PyBackedBytes, request_id: String) -> PyResult<PyGeneration> {
        PyGeneration::read(py, &self.service, message(request), request_id)
    }

    fn open_stream(&self) -> PyRpcStream {
        PyRpcStream { service: Arc::clone(&self.service), stream: self.service.open_stream() }
    }

    fn answer<'py>(
        &self,
        py: Python<'py>,
        stream: &PyRpcStream,
        request: PyBackedBytes,
    ) -> Bound<'py, PyBytes> {
        let (stream, random) = (stream.stream, self.random.next());
        let answer = work(py, request, |request| self.service.answer(stream, request, self.now(), random));
        PyBytes::new(py, &answer)
    }

    fn expire(&self, py: Python<'_>) -> usize {
        py.detach(|| self.service.expire(self.now()))
    }

    fn drain(&self) {
        self.service.drain();
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.service.stats();
        let dict = fields!(py, stats; open, streams, expired, left_with_stream, refused);
        dict.set_item("later_attempts", self.service.later_attempts())?;
        Ok(dict)
    }
}

/// A request that was read.
#[pyclass(frozen, module = "warmroute._core", name = "RpcRequest")]
pub(crate) struct PyAsked(Asked);

/// A stream; its reservations end with it.
#[pyclass(frozen, module = "warmroute._core", name = "RpcStream")]
pub(crate) struct PyRpcStream {
    service: Arc<Service>,
    stream: StreamId,
}

#[pymethods]
impl PyRpcStream {
    #[getter]
    fn is_empty(&self) -> bool {
        self.service.is_empty(self.stream)
    }

    fn end(&self, py: Python<'_>) -> usize {
        py.detach(|| self.service.end_stream(self.stream))
    }
}

impl Drop for PyRpcStream {
    fn drop(&mut self) {
        self.service.end_stream(self.stream);
    }
}
