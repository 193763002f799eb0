//! A model of a vLLM worker.
//!
//! [`engine`] is the engine in virtual time: block pool, scheduler and step time. It is pure: time is an
//! argument, and it starts nothing of its own.

pub mod engine;
