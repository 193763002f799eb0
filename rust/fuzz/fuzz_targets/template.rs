//! Template text from a folder that nobody has checked: compiled, its content format detected, and rendered.
#![no_main]

libfuzzer_sys::fuzz_target!(|source: &str| warmroute_prompt::fuzzing::compile(source));
