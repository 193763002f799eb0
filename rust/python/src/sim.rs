//! The engine model's server as a Python object.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use warmroute_core::options::Allowed::{Choice, Float, Int};
use warmroute_sim::engine::{ConfigError, StepTime};
use warmroute_sim::http::{HashTokenizer, KvEventSource, SimConfig, SimServer, StartError, Tokenize};

use crate::prompter::{self, Tokenizer};
use crate::{errors, options};

const GPUS: [&str; 2] = ["a100-8b", "h100-8b"];

warmroute_core::options! {
    /// The options of a simulated worker, named as vLLM names them.
    pub struct SimOptions {
        /// What the worker computes on.
        gpu: Gpu = Gpu(0), Choice(&GPUS), "";
        /// Simulated seconds in a real one.
        speed: f64 = 1.0, Float(0.001, 1000.0), "";
        /// Tokens in one KV block.
        block_size: u32 = 16, Int(1, 4096), "tokens";
        /// KV blocks; the default is an 80 GB GPU with an 8B model.
        num_gpu_blocks: u32 = 26_251, Int(2, 1 << 30), "blocks";
        /// The longest prompt with its output.
        max_model_len: u32 = 131_072, Int(2, 1 << 30), "tokens";
        /// Requests that run at once.
        max_num_seqs: u32 = 256, Int(1, 1 << 20), "requests";
        /// Tokens that one step computes at most.
        max_num_batched_tokens: u32 = 2048, Int(1, 1 << 30), "tokens";
        /// Requests that may wait before more are refused; 0 sets no bound.
        max_num_queued_reqs: u32 = 0, Int(0, 1 << 20), "requests";
        /// Tokens of a reply that nothing limits.
        output_tokens: u32 = 120, Int(1, 1 << 20), "tokens";
    }
}

/// A place in [`GPUS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gpu(usize);

impl warmroute_core::options::Field for Gpu {
    fn to_value(&self) -> warmroute_core::options::Value {
        warmroute_core::options::Value::Choice(GPUS[self.0].to_owned())
    }
    fn from_value(value: warmroute_core::options::Value) -> Option<Gpu> {
        match value {
            warmroute_core::options::Value::Choice(name) => GPUS.iter().position(|gpu| *gpu == name).map(Gpu),
            _ => None,
        }
    }
}

impl SimOptions {
    fn config(&self) -> SimConfig {
        let mut config =
            SimConfig { speed: self.speed, output_tokens: self.output_tokens, ..SimConfig::default() };
        config.max_queued_requests =
            (self.max_num_queued_reqs > 0).then_some(self.max_num_queued_reqs as usize);
        let engine = &mut config.engine;
        engine.step_time = [StepTime::A100_8B, StepTime::H100_8B][self.gpu.0];
        engine.block_size = self.block_size;
        engine.num_blocks = self.num_gpu_blocks;
        engine.max_model_len = self.max_model_len;
        engine.max_num_seqs = self.max_num_seqs;
        engine.max_num_batched_tokens = self.max_num_batched_tokens;
        config
    }
}

/// A simulated vLLM worker that serves HTTP on a thread of its own.
#[pyclass(frozen, module = "warmroute._core", name = "SimServer")]
pub(crate) struct PySimServer {
    server: RwLock<Option<SimServer>>,
    port: u16,
}

#[pymethods]
impl PySimServer {
    #[new]
    #[pyo3(signature = (
        *, host = "127.0.0.1", port = 0, model = "sim", tokenizer = None, events = None, **options
    ))]
    fn new(
        py: Python<'_>,
        host: &str,
        port: u16,
        model: &str,
        tokenizer: Option<&str>,
        events: Option<(String, Option<String>, String)>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PySimServer> {
        let mut chosen = SimOptions::default();
        options::apply(py, options, |name, value| chosen.set(name, value))?;
        let mut config = chosen.config();
        (config.host, config.port, config.model) = (host.to_owned(), port, model.to_owned());
        config.kv_events = events.map(|(endpoint, replay_endpoint, topic)| KvEventSource {
            endpoint,
            replay_endpoint,
            topic,
            buffer_steps: 10_000,
        });
        let tokenize: Arc<dyn Tokenize> = match tokenizer {
            None => Arc::new(HashTokenizer),
            Some(path) => Arc::new(Tokenizer(prompter::load(py, path, &Default::default())?)),
        };
        let server =
            py.detach(|| SimServer::start(config, tokenize)).map_err(|error| start_error(py, error))?;
        Ok(PySimServer { port: server.addr().port(), server: RwLock::new(Some(server)) })
    }

    #[getter]
    fn port(&self) -> u16 {
        self.port
    }

    /// Numbered KV event batches that were not taken before; waits for the first.
    fn take_events<'py>(
        &self,
        py: Python<'py>,
        limit: usize,
        timeout_ms: u64,
    ) -> Vec<(u64, Bound<'py, PyBytes>)> {
        let timeout = Duration::from_millis(timeout_ms);
        let taken =
            py.detach(|| self.server.read().as_ref().map(|server| server.take_events(limit, timeout)));
        batches(py, taken)
    }

    /// The batches that are still kept, from number `start` on.
    fn replay_from<'py>(&self, py: Python<'py>, start: u64) -> Vec<(u64, Bound<'py, PyBytes>)> {
        let kept = py.detach(|| self.server.read().as_ref().map(|server| server.replay_from(start)));
        batches(py, kept)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let Some(snapshot) = self.server.read().as_ref().map(SimServer::snapshot) else { return Ok(dict) };
        let counters = &snapshot.counters;
        dict.set_item("now", snapshot.now)?;
        dict.set_item("prefix_queries", counters.prefix_queries)?;
        dict.set_item("prefix_hits", counters.prefix_hits)?;
        dict.set_item("busy_seconds", counters.busy_seconds)?;
        dict.set_item("prefill_seconds", counters.prefill_seconds)?;
        dict.set_item("recompute_seconds", counters.recompute_seconds)?;
        dict.set_item("preemptions", counters.preemptions)?;
        dict.set_item("running", snapshot.load.running)?;
        dict.set_item("waiting", snapshot.load.waiting)?;
        dict.set_item("peak_lag", snapshot.peak_lag)?;
        Ok(dict)
    }

    #[pyo3(signature = (grace_s = 0.0))]
    fn stop(&self, py: Python<'_>, grace_s: f64) {
        let grace = Duration::try_from_secs_f64(grace_s).unwrap_or_default();
        py.detach(|| {
            if let Some(server) = self.server.write().take() {
                server.stop(grace);
            }
        });
    }
}

fn batches<B: AsRef<[u8]>>(py: Python<'_>, batches: Option<Vec<(u64, B)>>) -> Vec<(u64, Bound<'_, PyBytes>)> {
    let batches = batches.unwrap_or_default();
    batches.into_iter().map(|(number, payload)| (number, PyBytes::new(py, payload.as_ref()))).collect()
}

fn start_error(py: Python<'_>, error: StartError) -> PyErr {
    match error {
        StartError::Config(ConfigError { option, value, allowed }) => {
            errors::raise(py, "ConfigError", (option, value, allowed))
        }
        StartError::Bind { address, source } => {
            errors::raise(py, "ConfigError", ("port", address, format!("an address that is free ({source})")))
        }
        StartError::Runtime(source) => source.into(),
    }
}
