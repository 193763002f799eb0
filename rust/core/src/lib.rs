//! The decision engine of warmroute: which worker should take this prompt.
//!
//! Pure: no clock, no thread, no I/O. Time and randomness are arguments, and nothing here calls out.

pub mod block;
pub mod ids;
pub mod time;
