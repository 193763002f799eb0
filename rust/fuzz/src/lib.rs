//! What the fuzz targets share, also with the ordinary tests of `rust/prompt` and `rust/core`.

pub mod entry;
pub mod mutate;
pub mod seeds;
