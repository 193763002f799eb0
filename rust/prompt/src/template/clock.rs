//! `strftime_now`: the date of the prompt.
//!
//! The worker asks its clock while it renders, so only what changes once a day can be the same here: a template that
//! prints the time of day is refused, and around midnight every template that prints the date.

use jiff::{SignedDuration, ZonedDateTime};
use minijinja::{Error, ErrorKind, Value};

/// What an error of this module says, so that it can be told from others.
pub(super) const CLOCK: &str = "the date or the time cannot be known";
/// On both sides of midnight: clocks of a fleet differ by less, and a prompt takes less to arrive.
const MARGIN: SignedDuration = SignedDuration::from_secs(2);

/// The function. The time zone is that of this process, as `TZ` or `/etc/localtime` says.
pub(super) fn strftime_now(format: &str) -> Result<Value, Error> {
    date(format, &ZonedDateTime::now())
        .map(Value::from)
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, CLOCK))
}

/// `now` by a format of nothing but the date's parts; `None` where another would be needed, and close to midnight.
fn date(format: &str, now: &ZonedDateTime) -> Option<String> {
    let near = |moment: Result<ZonedDateTime, jiff::Error>| moment.map(|moment| moment.date()).ok();
    let today = Some(now.date());
    if near(now.checked_sub(MARGIN)) != today || near(now.checked_add(MARGIN)) != today {
        return None;
    }
    let mut rest = format;
    while let Some((_, directive)) = rest.split_once('%') {
        let mut characters = directive.chars();
        // In the C locale, which is Python's own, these are the same everywhere.
        if !"YmdbBaAyjuwe%".contains(characters.next()?) {
            return None;
        }
        rest = characters.as_str();
    }
    jiff::fmt::strtime::format(format, now).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(moment: &str, format: &str) -> Option<String> {
        date(format, &moment.parse().unwrap())
    }

    #[test]
    fn prints_the_date_as_python() {
        let noon = "2026-03-05T12:00:00[UTC]";
        assert_eq!(at(noon, "%d %b %Y").as_deref(), Some("05 Mar 2026"));
        assert_eq!(
            at(noon, "%Y-%m-%d, %A the %j. of %B %y 100%%").as_deref(),
            Some("2026-03-05, Thursday the 064. of March 26 100%")
        );
        assert_eq!(at(noon, "no date").as_deref(), Some("no date"));
    }

    #[test]
    fn refuses_what_changes_within_the_day() {
        for format in ["%H:%M", "%c", "%X", "%s", "%-d", "%", "%E"] {
            assert_eq!(at("2026-03-05T12:00:00[UTC]", format), None, "{format}");
        }
        for moment in ["2026-03-05T23:59:58.5[UTC]", "2026-03-05T00:00:01[UTC]"] {
            assert_eq!(at(moment, "%Y"), None, "{moment}");
        }
        assert!(at("2026-03-05T23:59:57[UTC]", "%Y").is_some());
    }
}
