//! The decision engine of warmroute: which worker should take this prompt.
//!
//! Pure: no clock, no thread, no I/O. Time and randomness are arguments, and nothing here calls out.

pub mod admit;
pub mod block;
pub mod calibration;
pub mod config;
pub mod error;
pub mod event;
pub mod fleet;
pub mod ids;
pub mod load;
pub mod mirror;
pub mod options;
pub mod prefix;
pub mod router;
pub mod select;
pub mod time;
