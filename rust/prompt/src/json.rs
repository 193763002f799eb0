//! JSON as it lies in a body: found, cut out and unescaped, never rebuilt.

mod cursor;
mod text;

pub(crate) use cursor::Cursor;
pub use cursor::MAX_NESTING;
pub(crate) use text::unescape;
