//! Time as an argument.

use std::time::Duration;

/// A moment, in nanoseconds since an origin that the caller chooses.
///
/// The core never reads a clock: whoever calls it passes the moment, a real one in a server and a
/// virtual one in a simulation or a test. Threads may pass moments to one router a little out of order: a moment
/// before another one counts as no time at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);
    /// Later than every other moment.
    pub const MAX: Time = Time(u64::MAX);

    /// The moment `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// The moment `seconds` after the origin; what is negative or not a number is the origin.
    pub fn from_secs_f64(seconds: f64) -> Time {
        Time((seconds * 1e9) as u64)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the origin.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long after `earlier` this is; zero where it is not later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This moment and `delay` more, or [`Time::MAX`].
    #[must_use]
    pub fn after(self, delay: Duration) -> Time {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }
}
