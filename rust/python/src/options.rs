//! Option tables, and keyword arguments checked against them.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use warmroute_core::error::ConfigError;
use warmroute_core::options::{Allowed, OptionSpec, Value};

use crate::errors;

/// One option: its name, default, range, unit and what it does.
#[pyclass(frozen, module = "warmroute._core", name = "OptionSpec", get_all)]
pub(crate) struct PyOptionSpec {
    name: &'static str,
    kind: &'static str,
    default: Py<PyAny>,
    minimum: Option<Py<PyAny>>,
    maximum: Option<Py<PyAny>>,
    choices: Option<Vec<&'static str>>,
    unit: &'static str,
    doc: &'static str,
    allowed: String,
}

#[pymethods]
impl PyOptionSpec {
    fn __repr__(&self) -> String {
        format!("OptionSpec({:?}, kind={:?})", self.name, self.kind)
    }
}

fn object(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    use pyo3::IntoPyObjectExt;
    match value {
        Value::Int(n) => n.into_py_any(py),
        Value::Float(x) => x.into_py_any(py),
        Value::Bool(b) => b.into_py_any(py),
        Value::Choice(name) => name.into_py_any(py),
    }
}

/// The table as Python objects.
pub(crate) fn table(py: Python<'_>, specs: Vec<OptionSpec>) -> PyResult<Vec<PyOptionSpec>> {
    let spec = |spec: OptionSpec| {
        let (kind, bounds, choices) = match spec.allowed {
            Allowed::Int(from, to) => ("int", Some((Value::Int(from), Value::Int(to))), None),
            Allowed::Float(from, to) => ("float", Some((Value::Float(from), Value::Float(to))), None),
            Allowed::Bool => ("bool", None, None),
            Allowed::Choice(names) => ("choice", None, Some(names.to_vec())),
        };
        let bound = |value: Option<Value>| value.map(|value| object(py, &value)).transpose();
        let (minimum, maximum) = bounds.unzip();
        Ok(PyOptionSpec {
            name: spec.name,
            kind,
            default: object(py, &spec.default)?,
            minimum: bound(minimum)?,
            maximum: bound(maximum)?,
            choices,
            unit: spec.unit,
            doc: spec.doc,
            allowed: spec.allowed.to_string(),
        })
    };
    specs.into_iter().map(spec).collect()
}

/// Hands each keyword argument to `set`, which checks it.
pub(crate) fn apply(
    py: Python<'_>,
    options: Option<&Bound<'_, PyDict>>,
    mut set: impl FnMut(&str, &Value) -> Result<(), ConfigError>,
) -> PyResult<()> {
    let Some(options) = options else { return Ok(()) };
    for (name, given) in options {
        let name: String = name.extract()?;
        // What no option takes stands for itself in the error.
        let value = value(&given).unwrap_or(Value::Float(f64::NAN));
        set(&name, &value)
            .map_err(|error| errors::raise(py, "ConfigError", (error.key, given.clone(), error.allowed)))?;
    }
    Ok(())
}

fn value(given: &Bound<'_, PyAny>) -> Option<Value> {
    // A Python bool is an int too, and is meant as a bool.
    if given.is_instance_of::<PyBool>() {
        return given.extract().ok().map(Value::Bool);
    }
    if given.is_instance_of::<PyInt>() {
        return given.extract().ok().map(Value::Int);
    }
    if given.is_instance_of::<PyFloat>() {
        return given.extract().ok().map(Value::Float);
    }
    given.cast::<PyString>().ok().map(|text| Value::Choice(text.to_string()))
}
