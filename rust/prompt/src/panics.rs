//! What a panic ends, and what is said of it.

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::thread;

use crate::Refused;

/// Runs other people's code over a client's text: its panic is the refusal `otherwise`, and takes no serving thread with
/// it.
pub(crate) fn contained<T>(
    otherwise: Refused,
    run: impl FnOnce() -> Result<T, Refused>,
) -> Result<T, Refused> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(otherwise))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_refusal() {
        let panics = || -> Result<(), Refused> { panic!("on purpose") };
        assert_eq!(contained(Refused::Template, panics), Err(Refused::Template));
        assert_eq!(contained(Refused::Template, || Err::<(), _>(Refused::Media)), Err(Refused::Media));
        assert_eq!(contained(Refused::Template, || Ok(1)), Ok(1));
    }
}
