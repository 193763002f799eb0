//! The retry budget, to be handed from one way in to another.

use std::sync::Arc;

use pyo3::prelude::*;
use warmroute_core::admit::RetryBudget;
use warmroute_proxy::ProxyConfig;

use crate::errors;

/// How many requests may be sent to another worker: a share of recent ones, and a small floor.
#[pyclass(frozen, module = "warmroute._core", name = "RetryBudget")]
pub(crate) struct PyRetryBudget(pub(crate) Arc<RetryBudget>);

#[pymethods]
impl PyRetryBudget {
    #[new]
    #[pyo3(signature = (*, retry_share, retry_floor))]
    fn new(py: Python<'_>, retry_share: f64, retry_floor: f64) -> PyResult<PyRetryBudget> {
        let config = ProxyConfig { retry_share, retry_floor, ..ProxyConfig::default() };
        config.validate().map_err(|error| errors::config(py, &error))?;
        Ok(PyRetryBudget(config.retry_budget()))
    }
}
