//! JSON as it lies in a body: found, cut out and unescaped, never rebuilt.

mod brackets;
mod cursor;
mod quote;
mod text;
mod value;

pub(crate) use cursor::Cursor;
pub use cursor::MAX_NESTING;
pub(crate) use text::unescape;
pub(crate) use value::{string, to_value};
