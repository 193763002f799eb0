//! A worker's KV events, applied to a router as they come.
#![no_main]

// Not by the library: it brings a tokenizer and templates along, whose counters are read after each input.
#[path = "../src/events.rs"]
#[allow(dead_code, reason = "the other target and the tests use the rest")]
mod events;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| events::mirrored(bytes));
