//! What a proxy counts. Every label is one of a fixed list.

mod counter;

use http::StatusCode;
use warmroute_prompt::{Endpoint, Refused, Rung};

pub(crate) use counter::{Counter, Times};
pub use counter::{DECISION_SECONDS, Histogram, SECONDS};

/// Defines an enum whose members are labels, with their names.
macro_rules! labels {
    ($(#[$meta:meta])* $vis:vis enum $Name:ident { $( $(#[$doc:meta])* $Member:ident = $name:literal, )+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $Name { $( $(#[$doc])* $Member, )+ }

        impl $Name {
            /// Every member, in the order of the counters.
            pub const ALL: &'static [$Name] = &[ $( $Name::$Member, )+ ];
            const COUNT: usize = $Name::ALL.len();

            /// Its name in metrics.
            pub fn name(self) -> &'static str {
                match self { $( $Name::$Member => $name, )+ }
            }
        }
    };
}

labels! {
    /// What a request asks for.
    pub enum Kind {
        /// `/v1/chat/completions`
        ChatCompletions = "chat_completions",
        /// `/v1/completions`
        Completions = "completions",
        /// `/v1/responses`
        Responses = "responses",
        /// `/v1/messages`
        Messages = "messages",
        /// Any other path that is forwarded.
        Other = "other",
        /// What is answered here.
        Control = "control",
    }
}

impl From<Option<Endpoint>> for Kind {
    fn from(endpoint: Option<Endpoint>) -> Kind {
        match endpoint {
            Some(Endpoint::ChatCompletions) => Kind::ChatCompletions,
            Some(Endpoint::Completions) => Kind::Completions,
            Some(Endpoint::Responses) => Kind::Responses,
            Some(Endpoint::Messages) => Kind::Messages,
            None => Kind::Other,
        }
    }
}

labels! {
    /// How a request ended, for its client.
    pub enum Ending {
        /// A whole reply with a status below 300.
        Success = "2xx",
        /// A whole reply with a status from 300 to 399.
        Redirect = "3xx",
        /// A whole reply with a status from 400 to 499.
        ClientError = "4xx",
        /// A whole reply with a status from 500 on.
        ServerError = "5xx",
        /// The worker failed in the middle of its reply.
        Interrupted = "interrupted",
        /// The client left before the end.
        Departed = "departed",
    }
}

impl From<StatusCode> for Ending {
    fn from(status: StatusCode) -> Ending {
        match status.as_u16() {
            0..300 => Ending::Success,
            300..400 => Ending::Redirect,
            400..500 => Ending::ClientError,
            _ => Ending::ServerError,
        }
    }
}

labels! {
    /// How far a request was when its client left.
    pub enum Phase {
        /// The body had not come whole.
        Body = "body",
        /// No head of a reply had come.
        Head = "head",
        /// The head had come, and no byte of the reply's body.
        FirstByte = "first_byte",
        /// In the middle of the reply.
        Stream = "stream",
    }
}

labels! {
    /// Why a request was sent to another worker, or might have been.
    pub enum RetryReason {
        /// No connection could be had.
        Connect = "connect",
        /// The connection ended before a reply began.
        Closed = "closed",
        /// The worker said 502.
        BadGateway = "502",
        /// The worker said 503.
        Unavailable = "503",
    }
}

labels! {
    /// Why the proxy refused a request itself.
    pub enum RefusalKind {
        /// The caller's fault: broken JSON, a wrong field, a method that is not allowed.
        InvalidRequest = "invalid_request",
        /// The body is over the limit.
        BodyTooLarge = "body_too_large",
        /// Nobody serves the model.
        UnknownModel = "unknown_model",
        /// Longer than any worker takes.
        PromptTooLong = "prompt_too_long",
        /// Every worker has as many requests as it may have.
        Saturated = "saturated",
        /// No worker is ready.
        NoWorker = "no_worker",
        /// No connection to the worker, or it broke before the reply.
        WorkerUnreachable = "worker_unreachable",
        /// The worker's answer is not HTTP.
        WorkerGarbage = "worker_garbage",
        /// The worker did not begin its reply in time.
        WorkerTimeout = "worker_timeout",
        /// Too many bodies are held, or too many requests wait for what is answered here.
        Busy = "busy",
    }
}

labels! {
    /// What came of the wish to have a prompt's tokens from a worker.
    pub enum Asked {
        /// A worker gave them.
        Answered = "answered",
        /// They had been given before.
        Kept = "kept",
        /// Another request asked for the same at the same time.
        Shared = "shared",
        /// The worker does not take such a request.
        Refused = "refused",
        /// The client's key does not open the worker.
        Denied = "denied",
        /// The worker gave no reply, or one without tokens.
        Failed = "failed",
        /// The worker took too long.
        Late = "late",
        /// Too many other questions were under way.
        Busy = "busy",
        /// No worker can be asked: none is ready, has a path for it, or has not just failed.
        Nobody = "nobody",
    }
}

/// The counters of one thread.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) requests: [[Counter; Ending::COUNT]; Kind::COUNT],
    pub(crate) prompts: [Counter; Rung::ALL.len()],
    pub(crate) inexact: [Counter; Refused::ALL.len()],
    pub(crate) asked: [Counter; Asked::COUNT],
    pub(crate) encoded_elsewhere: Counter,
    pub(crate) departures: [Counter; Phase::COUNT],
    pub(crate) retries: [Counter; RetryReason::COUNT],
    pub(crate) retries_denied: Counter,
    pub(crate) stale_connections: Counter,
    pub(crate) refusals: [Counter; RefusalKind::COUNT],
    pub(crate) ttft: Times<20>,
    pub(crate) duration: Times<20>,
    pub(crate) decision: Times<12>,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    pub(crate) connections: Counter,
    pub(crate) connections_open: Counter,
    pub(crate) requests_open: Counter,
    pub(crate) worker_connects: Counter,
    pub(crate) worker_connect_failures: Counter,
    pub(crate) worker_reuses: Counter,
    pub(crate) timeouts: Counter,
}

fn counters<const N: usize>() -> [Counter; N] {
    std::array::from_fn(|_| Counter::default())
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            requests: std::array::from_fn(|_| counters()),
            prompts: counters(),
            inexact: counters(),
            asked: counters(),
            encoded_elsewhere: Counter::default(),
            departures: counters(),
            retries: counters(),
            retries_denied: Counter::default(),
            stale_connections: Counter::default(),
            refusals: counters(),
            ttft: Times::new(&SECONDS),
            duration: Times::new(&SECONDS),
            decision: Times::new(&DECISION_SECONDS),
            bytes_received: Counter::default(),
            bytes_sent: Counter::default(),
            connections: Counter::default(),
            connections_open: Counter::default(),
            requests_open: Counter::default(),
            worker_connects: Counter::default(),
            worker_connect_failures: Counter::default(),
            worker_reuses: Counter::default(),
            timeouts: Counter::default(),
        }
    }
}

/// What a proxy has counted since its start, over all threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProxyStats {
    /// Requests that ended, by [`Kind`] and [`Ending`] in the order of their `ALL`.
    pub requests: [[u64; Ending::COUNT]; Kind::COUNT],
    /// Requests that were routed, by how their prompt was had, in the order of [`Rung::ALL`].
    pub prompts: [u64; Rung::ALL.len()],
    /// Requests whose tokens could not be made here, by the reason, in the order of [`Refused::ALL`].
    pub inexact: [u64; Refused::ALL.len()],
    /// What came of asking workers for tokens, by [`Asked`].
    pub asked: [u64; Asked::COUNT],
    /// Prompts that were not made on the thread that reads requests, because too much of them was not seen before.
    pub encoded_elsewhere: u64,
    /// Bytes that answers of workers take, which are kept.
    pub worker_tokens_bytes: u64,
    /// Clients that left, by [`Phase`].
    pub departures: [u64; Phase::COUNT],
    /// Requests sent once more to another worker, by [`RetryReason`].
    pub retries: [u64; RetryReason::COUNT],
    /// Retries that the budget did not allow.
    pub retries_denied: u64,
    /// Kept connections that a worker had closed; the request went again on a fresh one.
    pub stale_connections: u64,
    /// Requests that the proxy refused itself, by [`RefusalKind`].
    pub refusals: [u64; RefusalKind::COUNT],
    /// Time from the head of a request to the first byte of its streamed reply.
    pub ttft: Histogram,
    /// Time from the head of a request to the end of its reply.
    pub duration: Histogram,
    /// Time to read a body, hash its prompt and choose a worker.
    pub decision: Histogram,
    /// Bytes of request bodies.
    pub bytes_received: u64,
    /// Bytes of reply bodies.
    pub bytes_sent: u64,
    /// Client connections taken.
    pub connections: u64,
    /// Client connections that are open.
    pub connections_open: u64,
    /// Requests that are being answered.
    pub requests_open: u64,
    /// Connections made to workers.
    pub worker_connects: u64,
    /// Connections to workers that could not be made.
    pub worker_connect_failures: u64,
    /// Requests sent on a kept connection.
    pub worker_reuses: u64,
    /// Client connections closed because the client was too slow.
    pub timeouts: u64,
}

impl Counters {
    /// Adds this thread's counters to `stats`.
    pub(crate) fn add_to(&self, stats: &mut ProxyStats) {
        for (sums, row) in stats.requests.iter_mut().zip(&self.requests) {
            add(sums, row);
        }
        add(&mut stats.prompts, &self.prompts);
        add(&mut stats.inexact, &self.inexact);
        add(&mut stats.asked, &self.asked);
        add(&mut stats.departures, &self.departures);
        add(&mut stats.retries, &self.retries);
        add(&mut stats.refusals, &self.refusals);
        self.ttft.add_to(&mut stats.ttft);
        self.duration.add_to(&mut stats.duration);
        self.decision.add_to(&mut stats.decision);
        stats.encoded_elsewhere += self.encoded_elsewhere.get();
        stats.retries_denied += self.retries_denied.get();
        stats.stale_connections += self.stale_connections.get();
        stats.bytes_received += self.bytes_received.get();
        stats.bytes_sent += self.bytes_sent.get();
        stats.connections += self.connections.get();
        stats.connections_open += self.connections_open.get();
        stats.requests_open += self.requests_open.get();
        stats.worker_connects += self.worker_connects.get();
        stats.worker_connect_failures += self.worker_connect_failures.get();
        stats.worker_reuses += self.worker_reuses.get();
        stats.timeouts += self.timeouts.get();
    }
}

fn add(sums: &mut [u64], counters: &[Counter]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum += counter.get();
    }
}
