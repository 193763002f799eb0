//! The HTTP data plane: requests are routed by their prompt, and the client's bytes are forwarded as they are.
//!
//! Each thread serves connections of its own, with a runtime, a listener and connections to workers of its own:
//! nothing on a request's way crosses threads but the router's lock. `docs/life-of-a-request.md` tells the rest.

mod accept;
mod body;
mod config;
mod connection;
mod control;
mod error;
mod exchange;
mod forward;
mod headers;
mod proxy;
mod refusal;
mod reply;
mod route;
mod serve;
mod shard;
mod silence;
mod socket;
mod stats;
mod tail;
mod tokens;
mod upstream;

pub use config::ProxyConfig;
pub use control::{Control, ControlReply, ControlRequest};
pub use error::ProxyError;
pub use proxy::Proxy;
pub use stats::{
    Asked, DECISION_SECONDS, Ending, Histogram, Kind, Phase, ProxyStats, RefusalKind, RetryReason, SECONDS,
};
pub use tokens::when::WorkerTokenize;
