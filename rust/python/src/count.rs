//! Numbers from Python.

use pyo3::prelude::*;

use crate::errors;

/// Digits of a number that an error repeats.
const MAX_DIGITS: usize = 32;

/// A whole number from 0 to 4,294,967,295; another one raises `InvalidRequest`, which names it.
#[derive(Clone, Copy)]
pub(crate) struct Count(pub(crate) u32);

impl<'py> FromPyObject<'_, 'py> for Count {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Count> {
        given.extract::<u32>().map(Count).map_err(|_| {
            let text: String = given.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
            let text: String = text.chars().take(MAX_DIGITS).collect();
            errors::invalid(given.py(), format!("{text} is not a whole number from 0 to {}", u32::MAX))
        })
    }
}

/// What is inside, where there is a number.
pub(crate) fn get(count: Option<Count>) -> Option<u32> {
    count.map(|count| count.0)
}
