//! A model of a vLLM worker.
//!
//! * [`engine`] is the engine in virtual time: block pool, scheduler and step time. It is pure: time is an
//!   argument, and it starts nothing of its own.
//! * [`fleet`] is several of them, clients and a route in virtual time.
//! * [`http`] serves one engine in real or scaled time, and answers as vLLM 0.32 does.

pub mod engine;
pub mod fleet;
pub mod http;
