//! One request and its reply: how far it is, and an end that is recorded once, whichever way it comes.

use std::rc::Rc;
use std::time::Instant;

use warmroute_core::load::ledger::Outcome;

use crate::route::Booking;
use crate::shard::Shard;
use crate::socket::{Client, State};
use crate::stats::{Ending, Kind, Phase};
use crate::tail::Usage;

/// A request under way. Dropped before [`Exchange::end`], it records that its client left.
pub(crate) struct Exchange {
    pub(crate) shard: Rc<Shard>,
    client: Rc<Client>,
    kind: Kind,
    pub(crate) started: Instant,
    phase: Phase,
    booking: Option<Booking>,
    ended: bool,
}

impl Exchange {
    pub(crate) fn new(shard: Rc<Shard>, client: Rc<Client>, kind: Kind) -> Exchange {
        client.enter(State::Body);
        shard.stats.requests_open.one();
        Exchange {
            shard,
            client,
            kind,
            started: Instant::now(),
            phase: Phase::Body,
            booking: None,
            ended: false,
        }
    }

    /// The request goes on to `phase`.
    pub(crate) fn enter(&mut self, phase: Phase) {
        if self.phase == Phase::Body {
            self.client.enter(State::Busy);
        }
        self.phase = phase;
    }

    /// A worker was booked.
    pub(crate) fn book(&mut self, booking: Booking) {
        self.booking = Some(booking);
    }

    /// Closes the booking, where there is one.
    pub(crate) fn release(&mut self, outcome: Outcome) {
        if let Some(booking) = self.booking.take() {
            booking.close(outcome);
        }
    }

    /// The first byte of a reply came; only a streamed one tells when the first token came.
    pub(crate) fn first_byte(&mut self, streamed: bool) {
        self.phase = Phase::Stream;
        if streamed {
            let now = Instant::now();
            self.shard.stats.ttft.observe(now - self.started);
            if let Some(booking) = &self.booking {
                booking.lease().first_token(self.shard.shared.router.time(now));
            }
        }
    }

    /// The reply has `output_tokens` tokens so far.
    pub(crate) fn progress(&self, output_tokens: u32) {
        if let Some(booking) = &self.booking {
            booking.lease().progress(output_tokens);
        }
    }

    /// The worker says how many tokens there were.
    pub(crate) fn usage(&self, usage: Usage) {
        if let Some(booking) = &self.booking {
            if let Some(tokens) = usage.output_tokens {
                booking.lease().progress(tokens);
            }
            if let Some(tokens) = usage.cached_tokens {
                booking.lease().cached_tokens(tokens);
            }
        }
    }

    /// The rest of the request will not be read.
    pub(crate) fn leave_unread(&self) {
        self.client.leave_unread();
    }

    /// A reply of unknown length cannot be completed. The client of HTTP/1.0 would take its end for the end of
    /// the reply, so that the connection is reset.
    pub(crate) fn cut(&self) {
        self.client.reset_on_close();
    }

    /// The reply is over.
    pub(crate) fn end(&mut self, ending: Ending) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.release(match ending {
            Ending::Success | Ending::Redirect | Ending::ClientError => Outcome::Finished,
            Ending::ServerError | Ending::Interrupted => Outcome::Failed,
            Ending::Departed => Outcome::Cancelled,
        });
        let stats = &self.shard.stats;
        stats.requests[self.kind as usize][ending as usize].one();
        stats.requests_open.less_one();
        match ending {
            Ending::Departed => stats.departures[self.phase as usize].one(),
            _ => stats.duration.observe(self.started.elapsed()),
        }
        self.client.enter(State::Idle);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end(Ending::Departed);
    }
}
