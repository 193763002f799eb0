//! The Python binding: convert, call, map the error.

use pyo3::prelude::*;

/// The compiled part of warmroute.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
