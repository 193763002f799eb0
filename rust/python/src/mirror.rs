//! A worker's KV events, applied to a router.

use std::time::Instant;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;
use warmroute_core::mirror::{Mirror, Status};
use warmroute_core::router::SharedRouter;

use crate::errors;
use crate::random::Random;
use crate::router::PyRouter;
use crate::stats::fields;

/// Keeps a router's index equal to one worker's KV cache, from the batches of events that the worker publishes.
#[pyclass(frozen, module = "warmroute._core", name = "Mirror")]
pub(crate) struct PyMirror {
    mirror: Mutex<Mirror>,
    router: SharedRouter,
    worker: String,
}

impl PyMirror {
    /// Feeds the mirror without the GIL: decoding takes a while, and so may the router's lock.
    fn feed(
        &self,
        py: Python<'_>,
        feed: impl FnOnce(&mut Mirror, warmroute_core::time::Time) -> Status + Send,
    ) -> PyResult<Option<u64>> {
        let now = self.router.time(Instant::now());
        match py.detach(|| feed(&mut self.mirror.lock(), now)) {
            Status::Live => Ok(None),
            Status::Behind(from) => Ok(Some(from)),
            Status::Gone => Err(errors::raise(py, "UnknownWorker", (self.worker.clone(),))),
        }
    }
}

/// A number as it is sent: eight bytes, big-endian.
fn number(frame: &[u8]) -> Option<u64> {
    frame.try_into().ok().map(u64::from_be_bytes)
}

#[pymethods]
impl PyMirror {
    #[new]
    fn new(py: Python<'_>, router: &PyRouter, worker: String) -> PyResult<PyMirror> {
        let router = router.shared().clone();
        let found = router.lock().fleet().get(&worker).map(|worker| worker.id);
        let id = found.map_err(|error| errors::fleet(py, &error))?;
        let mirror = Mirror::new(router.clone(), id, Random::new().next());
        Ok(PyMirror { mirror: Mutex::new(mirror), router, worker })
    }

    fn take(&self, py: Python<'_>, batches: Vec<(PyBackedBytes, PyBackedBytes)>) -> PyResult<Option<u64>> {
        self.feed(py, |mirror, now| {
            let numbered = batches.iter().filter_map(|(frame, payload)| Some((number(frame)?, payload)));
            numbered.fold(mirror.status(), |_, (number, payload)| mirror.take(number, payload, now))
        })
    }

    fn catch_up(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.feed(py, |mirror, _| mirror.catch_up())
    }

    fn replayed(
        &self,
        py: Python<'_>,
        start: u64,
        batches: Vec<(PyBackedBytes, PyBackedBytes)>,
    ) -> PyResult<Option<u64>> {
        self.feed(py, |mirror, now| {
            for (frame, payload) in &batches {
                if let Some(number) = number(frame) {
                    mirror.replayed(start, number, payload, now);
                }
            }
            mirror.status()
        })
    }

    fn replay_ended(&self, py: Python<'_>, start: u64) -> PyResult<Option<u64>> {
        self.feed(py, |mirror, now| mirror.replay_ended(start, now))
    }

    fn replay_failed(&self, py: Python<'_>, start: u64) -> PyResult<Option<u64>> {
        self.feed(py, |mirror, now| mirror.replay_failed(start, now))
    }

    fn restarted(&self, py: Python<'_>) {
        py.detach(|| self.mirror.lock().restarted());
    }

    fn confirmed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let confirmed = py.detach(|| self.mirror.lock().confirmed());
        let dict = fields!(py, confirmed; next, live, blocks);
        let names: Vec<u64> = confirmed.names.iter().map(|name| name.0).collect();
        dict.set_item("names", names)?;
        Ok(dict)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.mirror.lock().stats());
        let dict = fields!(py, stats;
            batches, replayed_batches, duplicates, gaps, losses, lost_batches, restarts, cleared, stored_blocks,
            repeated_blocks, removed_blocks, orphan_blocks, forgotten_blocks, ignored_blocks, unknown_removals, odd_blocks,
            odd_block_size, faults, blocks, lower_blocks, bytes, next);
        dict.set_item("fault", stats.fault.map(|fault| fault.to_string()))?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        format!("Mirror(worker={:?})", self.worker)
    }
}
