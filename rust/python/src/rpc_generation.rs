//! A request that is handed over, as a Python object.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warmroute_core::time::Time;
use warmroute_rpc::Service;
use warmroute_rpc::generate::{Another, Generation, Progress};

use crate::random::Random;
use crate::{errors, lease};

/// A request on its way to a worker. Dropped, it counts as cancelled.
#[pyclass(frozen, module = "warmroute._core", name = "Generation")]
pub(crate) struct PyGeneration {
    service: Arc<Service>,
    random: Random,
    generation: Mutex<Generation>,
}

impl PyGeneration {
    pub(crate) fn read(
        py: Python<'_>,
        service: &Arc<Service>,
        message: Bytes,
        request_id: String,
    ) -> PyResult<PyGeneration> {
        let read = py.detach(|| Generation::read(service, message, request_id));
        let generation = Mutex::new(read.map_err(|failure| errors::failure(py, &failure))?);
        Ok(PyGeneration { service: Arc::clone(service), random: Random::new(), generation })
    }

    fn now(&self) -> Time {
        self.service.router().time(Instant::now())
    }
}

#[pymethods]
impl PyGeneration {
    fn book(&self, py: Python<'_>) -> PyResult<()> {
        let random = self.random.next();
        let booked = py.detach(|| self.generation.lock().book(&self.service, self.now(), random));
        booked.map_err(|failure| errors::failure(py, &failure))
    }

    #[pyo3(signature = (outcome, *, free))]
    fn book_another(&self, py: Python<'_>, outcome: &str, free: bool) -> PyResult<&'static str> {
        let (outcome, random) = (lease::outcome(py, outcome)?, self.random.next());
        let another = py
            .detach(|| self.generation.lock().book_another(&self.service, outcome, free, self.now(), random));
        Ok(match another {
            Another::Booked => "booked",
            Another::Nobody => "nobody",
            Another::Denied => "denied",
        })
    }

    #[getter]
    fn worker(&self) -> String {
        self.generation.lock().worker().map(|worker| worker.spec.name.clone()).unwrap_or_default()
    }

    #[getter]
    fn url(&self) -> String {
        let generation = self.generation.lock();
        let url = generation.worker().map(|worker| worker.spec.url.as_str()).unwrap_or_default();
        [url, generation.path()].concat()
    }

    #[getter]
    fn dp_rank(&self) -> Option<u32> {
        self.generation.lock().worker()?.spec.dp_rank
    }

    #[getter]
    fn request_id(&self) -> String {
        self.generation.lock().request_id().to_owned()
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.generation.lock().body())
    }

    fn routed<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let routed = self.generation.lock().routed()?;
        Some(PyBytes::new(py, &routed))
    }

    fn feed<'py>(&self, py: Python<'py>, data: &[u8]) -> (Vec<Bound<'py, PyBytes>>, bool, Option<String>) {
        let now = self.now();
        let (messages, progress) = self.generation.lock().feed(data, now);
        let messages = messages.iter().map(|message| PyBytes::new(py, message)).collect();
        match progress {
            Progress::Open => (messages, false, None),
            Progress::Complete => (messages, true, None),
            Progress::Broken(why) => (messages, false, Some(why)),
        }
    }

    fn close(&self, py: Python<'_>, outcome: &str) -> PyResult<()> {
        let outcome = lease::outcome(py, outcome)?;
        py.detach(|| self.generation.lock().close(outcome));
        Ok(())
    }
}
