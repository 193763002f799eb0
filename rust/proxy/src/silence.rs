//! How long a worker has sent nothing.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Notices that nothing has come for too long.
#[derive(Debug)]
pub(crate) struct Silence {
    within: Duration,
    last: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Silence {
    /// Silence that begins here and may last `within`.
    pub(crate) fn new(within: Duration) -> Silence {
        Silence { within, last: Instant::now(), timer: Box::pin(sleep(within)) }
    }

    /// Something came. The timer is set anew only when it fires: chunks are many, and silence is rare.
    pub(crate) fn broken(&mut self) {
        self.last = Instant::now();
    }

    /// Whether it has lasted for too long; wakes the task when it may have.
    pub(crate) fn is_too_long(&mut self, cx: &mut Context<'_>) -> bool {
        while self.timer.as_mut().poll(cx) == Poll::Ready(()) {
            let end = self.last + self.within;
            if Instant::now() >= end {
                return true;
            }
            self.timer.as_mut().reset(end);
        }
        false
    }
}
