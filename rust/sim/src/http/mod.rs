//! One engine served over HTTP in real or scaled time, answering as vLLM 0.32 does.
//!
//! **Time.** The engine lives in simulated seconds; `speed` of them pass in a real one. Everything that the
//! server reports as a duration (`/metrics`, [`Snapshot`]) is in simulated seconds, so that figures do not
//! depend on `speed`. A client that measures by its own clock sees them divided by `speed`. A step begins
//! when the one before it ended in simulated time, not when the process got round to it, so a late timer
//! delays a token and never the engine; how late the process was at worst is reported as lag.
//!
//! **Answers.** A reply is made of short words, each of which is one token of the tokenizer where it has such
//! tokens. It depends on the prompt alone, and has `output_tokens` tokens unless the request limits it to
//! fewer or says `ignore_eos`.

mod api;
mod clock;
mod config;
mod driver;
mod error;
mod kv_encode;
mod kv_log;
mod metrics;
mod openai;
mod reply;
mod server;
mod stream;
mod tokenize;
mod vocabulary;

pub use config::{KvEventSource, SimConfig, StartError};
pub use driver::Snapshot;
pub use server::SimServer;
pub use tokenize::{HashTokenizer, Tokenize};
