//! A panic is said without its message.

use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use warmroute_prompt::veil_panics;

#[test]
fn a_panic_names_its_place_and_no_text() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&said);
    veil_panics(move |line| lines.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned()));
    let prompt = std::hint::black_box("a secret é");
    let message = *catch_unwind(|| prompt[..10].len()).unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("secret"), "{message}");
    let said = said.lock().unwrap();
    let [line] = &said[..] else { panic!("{said:?}") };
    assert!(line.contains("panics.rs:") && !line.contains("secret"), "{line}");
}
