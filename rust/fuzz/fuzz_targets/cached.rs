//! Bodies one after the other, with and without a cache of what was seen; the first byte chooses the template.
#![no_main]

libfuzzer_sys::fuzz_target!(init: warmroute_fuzz::entry::load_all(), |bytes: &[u8]| {
    if let Some((choice, bodies)) = bytes.split_first() {
        warmroute_fuzz::entry::cached(*choice, bodies);
    }
});
