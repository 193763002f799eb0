//! A fleet in virtual time, for judging who sends what where.
//!
//! [`run`] plays a workload against engines and a [`Route`]: clients send prompts, the route names a worker,
//! and the engines compute. Nothing takes time but the engines: a decision, a message and a KV event arrive
//! at the moment they are made. Two runs of one seed are equal, and two routes under one seed get the same
//! prompts in the same order, so that they can be compared in pairs.

mod play;
mod report;
mod rng;
mod workload;

pub use play::run;
pub use report::{Outcome, Report, Spread};
pub use rng::Rng;
pub use workload::{Arrivals, Patience, Phase, Plan, Prompt, Prompts, SharedPrefixes};

use crate::engine::KvEvent;

/// One sending of a request to the fleet; a client that tries again sends the same request once more.
#[derive(Clone, Copy, Debug)]
pub struct Sending<'a> {
    /// Its number, from 0, which no other sending has.
    pub id: u64,
    /// The request it is for.
    pub request: u64,
    /// How often the request was sent before.
    pub attempt: u32,
    /// What is sent.
    pub prompt: &'a Prompt,
}

/// How a sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The reply is complete.
    Finished,
    /// The client left, and the worker stopped.
    Abandoned,
}

/// Decides which worker takes a sending, and is told what becomes of it. Moments are virtual seconds.
///
/// A function from sending and moment to worker is a route that needs to know nothing more.
pub trait Route {
    /// The worker's place among the engines, or none to refuse.
    fn route(&mut self, sending: &Sending<'_>, now: f64) -> Option<usize>;

    /// The first token of a reply came.
    fn first_token(&mut self, _id: u64, _now: f64) {}

    /// A sending that a worker took has ended. `cached_tokens` is what its worker found in the cache.
    fn closed(&mut self, _id: u64, _how: Closed, _cached_tokens: u32, _now: f64) {}

    /// A worker's cache changed; called for engines whose configuration has `kv_events`.
    fn kv_events(&mut self, _worker: usize, _events: &[KvEvent], _now: f64) {}
}

impl<F: FnMut(&Sending<'_>, f64) -> usize> Route for F {
    fn route(&mut self, sending: &Sending<'_>, now: f64) -> Option<usize> {
        Some(self(sending, now))
    }
}

#[cfg(test)]
mod tests;
