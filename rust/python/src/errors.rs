//! Core errors as the exceptions of `warmroute.errors`.

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use warmroute_core::error::{ConfigError, FleetError, RouteError};
use warmroute_rpc::{Failure, Kind};

/// The exception `name` of `warmroute.errors`, made with `args`.
pub(crate) fn raise<'py>(py: Python<'py>, name: &str, args: impl PyCallArgs<'py>) -> PyErr {
    let made = py.import("warmroute.errors").and_then(|errors| errors.getattr(name)?.call1(args));
    // Where the exception cannot be made, what stands in its way is raised instead.
    made.map_or_else(|error| error, PyErr::from_value)
}

/// An argument that cannot be used.
pub(crate) fn invalid(py: Python<'_>, message: String) -> PyErr {
    raise(py, "InvalidRequest", (message,))
}

pub(crate) fn config(py: Python<'_>, error: &ConfigError) -> PyErr {
    raise(py, "ConfigError", (&error.key, &error.value, &error.allowed))
}

pub(crate) fn fleet(py: Python<'_>, error: &FleetError) -> PyErr {
    match error {
        FleetError::UnknownWorker(_) => raise(py, "UnknownWorker", (error.to_string(),)),
        FleetError::DuplicateWorker(name) => {
            raise(py, "ConfigError", ("name", name, "a name that no worker of the fleet has"))
        }
        FleetError::BlockSize { worker, block_size, expected } => {
            let allowed = format!("the router's block size, {expected}, for the worker {worker:?}");
            raise(py, "ConfigError", ("block_size", *block_size, allowed))
        }
    }
}

pub(crate) fn route(py: Python<'_>, error: &RouteError) -> PyErr {
    let message = error.to_string();
    match error {
        RouteError::UnknownModel(_) => raise(py, "UnknownModel", (message,)),
        RouteError::PromptTooLong { .. } => raise(py, "PromptTooLong", (message,)),
        RouteError::NoEligibleWorker => raise(py, "NoEligibleWorker", (message,)),
        RouteError::Saturated { retry_after } => raise(py, "Saturated", (message, retry_after.as_secs_f64())),
    }
}

/// Why a message is not answered.
pub(crate) fn failure(py: Python<'_>, failure: &Failure) -> PyErr {
    let (name, message) = (failure.kind.exception(), failure.message.as_str());
    match (failure.kind, failure.retry_after) {
        (Kind::InvalidRequest, _) => raise(py, name, (message, failure.field)),
        (Kind::Saturated | Kind::TooManyReservations, Some(after)) => {
            raise(py, name, (message, after.as_secs_f64()))
        }
        _ => raise(py, name, (message,)),
    }
}
