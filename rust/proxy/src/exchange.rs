//! One request and its reply: how far it is, and an end that is recorded once, whichever way it comes.

use std::rc::Rc;
use std::time::Instant;

use warmroute_core::load::ledger::Outcome;
use warmroute_core::router::Lease;

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
    lease: Option<Lease>,
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
            lease: None,
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

    /// A worker was booked. An earlier booking is closed as failed.
    pub(crate) fn book(&mut self, lease: Lease) {
        self.release(Outcome::Failed);
        self.lease = Some(lease);
    }

    /// Closes the booking of a worker that failed.
    pub(crate) fn release(&mut self, outcome: Outcome) {
        if let Some(mut lease) = self.lease.take() {
            lease.close(outcome);
        }
    }

    /// The first byte of a streamed reply came.
    pub(crate) fn first_byte(&mut self, streamed: bool) {
        self.phase = Phase::Stream;
        if streamed {
            let now = Instant::now();
            self.shard.stats.ttft.observe(now - self.started);
            if let Some(lease) = &self.lease {
                lease.first_token(self.shard.shared.router.time(now));
            }
        }
    }

    /// The reply has `output_tokens` tokens so far.
    pub(crate) fn progress(&self, output_tokens: u32) {
        if let Some(lease) = &self.lease {
            lease.progress(output_tokens);
        }
    }

    /// The worker says how many tokens there were.
    pub(crate) fn usage(&self, usage: Usage) {
        if let Some(lease) = &self.lease {
            if let Some(tokens) = usage.output_tokens {
                lease.progress(tokens);
            }
            if let Some(tokens) = usage.cached_tokens {
                lease.cached_tokens(tokens);
            }
        }
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
