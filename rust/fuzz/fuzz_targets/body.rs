//! The body parser and every field of it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| warmroute_fuzz::entry::body(bytes));
