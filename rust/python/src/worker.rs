//! Workers as Python objects.

use pyo3::prelude::*;
use warmroute_core::fleet::{Worker, WorkerState};

/// A worker of the fleet, as known at one moment.
#[pyclass(frozen, module = "warmroute._core", name = "WorkerView", get_all)]
pub(crate) struct PyWorker {
    name: String,
    url: String,
    state: &'static str,
    kv_blocks: Option<u32>,
    block_size: Option<u32>,
    models: Vec<String>,
    adapters: Vec<String>,
    max_model_len: Option<u32>,
    max_requests: Option<u32>,
    dp_rank: Option<u32>,
}

impl PyWorker {
    pub(crate) fn new(worker: &Worker, state: WorkerState) -> PyWorker {
        let spec = &worker.spec;
        PyWorker {
            name: spec.name.clone(),
            url: spec.url.clone(),
            state: state.name(),
            kv_blocks: spec.kv_blocks,
            block_size: spec.block_size,
            models: spec.models.clone(),
            adapters: spec.adapters.clone(),
            max_model_len: spec.max_model_len,
            max_requests: spec.max_requests,
            dp_rank: spec.dp_rank,
        }
    }
}

#[pymethods]
impl PyWorker {
    fn __repr__(&self) -> String {
        format!("WorkerView(name={:?}, url={:?}, state={:?})", self.name, self.url, self.state)
    }
}
