//! Values that print as Python prints them.
//!
//! Templates print numbers, lists and objects directly (`{{ tool }}`), in a concatenation or in a filter. What this
//! prints is what Python does; where that is not known it prints [`UNLIKE_PYTHON`], and the text is refused.

mod float;
mod object;
mod repr;
mod space;

pub(crate) use float::python_repr;
pub(crate) use object::{float, list, map, odd_float};
pub(crate) use repr::{DEEPEST_VALUE, UNLIKE_PYTHON, write_repr};
pub(crate) use space::{strip, strip_end, strip_start};
