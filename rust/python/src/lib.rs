//! The Python binding: convert, call, map the error.

mod count;
mod decision;
mod errors;
mod lease;
mod mirror;
mod options;
mod prompter;
mod proxy;
mod random;
mod retries;
mod router;
mod rpc;
mod rpc_generation;
mod sim;
mod stats;
mod tokenizer;
mod tokens;
mod worker;

use std::io::{Write as _, stderr};

use pyo3::prelude::*;
use warmroute_core::config::RouterConfig;
use warmroute_proxy::ProxyConfig;

/// The compiled part of warmroute.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Where standard error is closed there is nobody to tell.
    warmroute_prompt::veil_panics(|line| drop(writeln!(stderr(), "{line}")));
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ROUTER_OPTIONS", options::table(py, RouterConfig::options())?)?;
    module.add("PROMPT_CACHE_BYTES", warmroute_prompt::DEFAULT_CACHE_BYTES)?;
    module.add("PROXY_OPTIONS", options::table(py, ProxyConfig::options())?)?;
    module.add("SIM_OPTIONS", options::table(py, sim::SimOptions::options())?)?;
    module.add_class::<options::PyOptionSpec>()?;
    module.add_class::<router::PyRouter>()?;
    module.add_class::<lease::PyLease>()?;
    module.add_class::<mirror::PyMirror>()?;
    module.add_class::<decision::PyDecision>()?;
    module.add_class::<decision::PyExplanation>()?;
    module.add_class::<decision::PyCandidate>()?;
    module.add_class::<decision::PyCost>()?;
    module.add_class::<worker::PyWorker>()?;
    module.add_class::<prompter::PyPrompter>()?;
    module.add_class::<tokenizer::PyTokenizer>()?;
    module.add_class::<proxy::PyProxy>()?;
    module.add_class::<retries::PyRetryBudget>()?;
    module.add_class::<rpc::PyRpcService>()?;
    module.add_class::<rpc::PyRpcStream>()?;
    module.add_class::<rpc::PyAsked>()?;
    module.add_class::<rpc_generation::PyGeneration>()?;
    module.add_class::<sim::PySimServer>()
}
