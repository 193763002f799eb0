//! The messages of `proto/warmroute/v1`, as `make proto` writes them; nothing else is here, so that they can be written
//! again whatever uses them.

#![expect(clippy::all, reason = "generated; the comments stand in the .proto")]

include!("warmroute.v1.rs");
