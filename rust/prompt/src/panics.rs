//! What is said of a panic.

use std::panic::{PanicHookInfo, set_hook};
use std::thread;

/// From here on `say` gets one line of each panic of the process, in the place of what the standard library prints.
///
/// The line has the thread and the place in the code, and not the message: one of a text that is cut between the bytes
/// of a letter quotes the text, which may be a prompt.
pub fn veil_panics(say: impl Fn(&str) + Send + Sync + 'static) {
    set_hook(Box::new(move |panic| say(&line(panic))));
}

fn line(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    let thread = thread::current();
    format!(
        "warmroute: a panic{place} on the thread '{}'; report it as a bug",
        thread.name().unwrap_or_default()
    )
}
