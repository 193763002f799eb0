//! One engine in virtual time, with vLLM v1's semantics.
//!
//! The caller drives it: [`Engine::submit`] and [`Engine::abort`] at any moment, [`Engine::begin_step`] when
//! no step is under way, and [`Engine::end_step`] once the duration that `begin_step` named has passed.
//! Moments and durations are seconds as `f64`; moments passed to one engine must not decrease.
//!
//! What is modelled: chunked prefill under a token budget, continuous batching, first come first served
//! admission with head-of-line blocking, preemption by recomputation, prefix caching in whole blocks with
//! vLLM's eviction order, KV events, and a step time fitted to real GPUs. What is not: LoRA's cost,
//! speculative decoding, priorities, multi-modal inputs, several KV groups.

mod config;
mod counters;
mod event;
mod hash;
mod pool;
mod request;
mod schedule;
mod seen;
mod step_time;

pub use config::{ConfigError, EngineConfig};
pub(crate) use counters::buckets;
pub use counters::{Counters, Histogram};
pub use event::KvEvent;
pub use request::{Finish, Lora, RequestId, Space, Submission, SubmitError};
pub use schedule::{Emitted, Engine, Load, StepOutput};
pub use step_time::StepTime;

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
