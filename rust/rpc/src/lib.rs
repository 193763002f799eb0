//! The gRPC interface without gRPC: the bytes of a message in, the bytes of its answer out.
//!
//! Whoever serves owns connections, deadlines and keys; here messages are read, prompts hashed, decisions made, and
//! the reservations of remote callers kept until they are reported, expire, or leave with their stream.

mod asked;
mod failure;
pub mod generate;
pub mod leases;
mod reply;
mod service;

pub use asked::Asked;
pub use failure::{Failure, Kind};
pub use service::{Service, ServiceOptions};
pub use warmroute_proto as pb;
