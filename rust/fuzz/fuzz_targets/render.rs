//! Bodies through templates and a tokenizer; the first byte chooses the template.
#![no_main]

libfuzzer_sys::fuzz_target!(init: warmroute_fuzz::entry::load_all(), |bytes: &[u8]| {
    if let Some((choice, body)) = bytes.split_first() {
        warmroute_fuzz::entry::render(*choice, body);
    }
});
