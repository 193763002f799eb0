//! The body of a reply: one of our own, or a worker's as it comes.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderValue, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use memchr::memmem;
use warmroute_core::fleet::Worker;
use warmroute_prompt::Endpoint;

use crate::exchange::Exchange;
use crate::refusal;
use crate::silence::Silence;
use crate::stats::Ending;
use crate::tail::Tail;
use crate::upstream::{Target, Upstream};

/// Events of a stream after which the router is told of the progress: each counts as one token.
const PROGRESS_EVENTS: u32 = 32;

/// What a worker did whose connection ended too soon.
const CLOSED: &str = "closed the connection";

/// A reply that cannot be completed: its connection is closed, so that the client sees that it is cut.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the worker closed the connection in the middle of its reply")
    }
}

impl std::error::Error for Interrupted {}

/// The body of a reply.
pub(crate) enum Reply {
    /// The proxy's own.
    Own(Bytes),
    /// A worker's.
    Forwarded(Box<Forwarded>),
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Interrupted;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Interrupted>>> {
        match self.get_mut() {
            Reply::Own(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Reply::Forwarded(forwarded) => {
                forwarded.poll(cx).map(|next| next.map(|data| data.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Reply::Own(bytes) => bytes.is_empty(),
            Reply::Forwarded(forwarded) => forwarded.over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Own(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Reply::Forwarded(forwarded) => forwarded.incoming.size_hint(),
        }
    }
}

/// Where a worker's reply comes from.
pub(crate) struct Source {
    pub(crate) worker: Arc<Worker>,
    pub(crate) target: Rc<Target>,
    pub(crate) upstream: Upstream,
}

/// A worker's reply under way.
pub(crate) struct Forwarded {
    exchange: Exchange,
    incoming: Incoming,
    worker: Arc<Worker>,
    target: Rc<Target>,
    upstream: Option<Upstream>,
    endpoint: Option<Endpoint>,
    ending: Ending,
    /// Whether it is a stream of server-sent events.
    events: bool,
    counted: u32,
    reported: u32,
    begun: bool,
    /// The worker failed, and the reply breaks off at the next poll.
    broken: bool,
    over: bool,
    tail: Tail,
    silence: Option<Silence>,
}

impl Forwarded {
    /// The body `incoming` of a reply with `head` from `source`.
    pub(crate) fn new(
        exchange: Exchange,
        source: Source,
        endpoint: Option<Endpoint>,
        head: &Parts,
        incoming: Incoming,
    ) -> Forwarded {
        let silence = exchange.shard.config().silence_timeout().map(Silence::new);
        let kind = head.headers.get(header::CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
        Forwarded {
            exchange,
            incoming,
            worker: source.worker,
            target: source.target,
            upstream: Some(source.upstream),
            endpoint,
            ending: head.status.into(),
            events: kind.starts_with(b"text/event-stream"),
            counted: 0,
            reported: 0,
            begun: false,
            broken: false,
            over: false,
            tail: Tail::default(),
            silence,
        }
    }

    /// Ends a reply without a body, which nobody will poll.
    pub(crate) fn end_if_empty(&mut self, cx: &mut Context<'_>) {
        if self.incoming.is_end_stream() {
            self.end(cx);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Interrupted>>> {
        if self.over {
            return Poll::Ready(None);
        }
        if self.broken {
            return self.interrupted("failed", cx);
        }
        loop {
            let mut next = Pin::new(&mut self.incoming).poll_frame(cx);
            if next.is_pending() {
                // What the body waits for is moved by its connection, which nobody else polls.
                let open = self.upstream.as_mut().is_some_and(|upstream| upstream.drive(cx));
                next = Pin::new(&mut self.incoming).poll_frame(cx);
                if next.is_pending() && !open {
                    return self.interrupted(CLOSED, cx);
                }
                if next.is_pending() && self.silence.as_mut().is_some_and(|silence| silence.is_too_long(cx)) {
                    return self.interrupted("sent nothing for too long", cx);
                }
            }
            return match ready!(next) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Poll::Ready(Some(Ok(self.take_in(data, cx)))),
                    // Trailers: the client was not asked whether it takes them.
                    Err(_) => continue,
                },
                Some(Err(_)) => self.interrupted(CLOSED, cx),
                None => {
                    self.end(cx);
                    Poll::Ready(None)
                }
            };
        }
    }

    fn take_in(&mut self, data: Bytes, cx: &mut Context<'_>) -> Bytes {
        if !self.begun {
            self.begun = true;
            self.exchange.first_byte(self.events && self.ending == Ending::Success);
        }
        if let Some(silence) = &mut self.silence {
            silence.broken();
        }
        self.exchange.shard.stats.bytes_sent.add(data.len() as u64);
        self.tail.push(&data);
        if self.events {
            self.counted += memmem::find_iter(&data, b"data:").count() as u32;
            if self.counted >= self.reported + PROGRESS_EVENTS {
                self.reported = self.counted;
                self.exchange.progress(self.counted);
            }
        }
        if self.incoming.is_end_stream() {
            self.end(cx);
        }
        data
    }

    fn end(&mut self, cx: &mut Context<'_>) {
        self.over = true;
        if self.ending == Ending::Success {
            let mut usage = self.tail.usage();
            if self.events {
                usage.output_tokens = usage.output_tokens.or(Some(self.counted));
            }
            self.exchange.usage(usage);
        }
        self.exchange.end(self.ending);
        if let Some(upstream) = self.upstream.take() {
            self.exchange.shard.pools.keep(&self.target, upstream, cx);
        }
    }

    /// The worker failed: a stream says so in an event, any other reply breaks off.
    fn interrupted(&mut self, did: &str, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Interrupted>>> {
        self.upstream = None;
        self.exchange.end(Ending::Interrupted);
        // A stream whose length was announced has no room for another event.
        if self.events && self.incoming.size_hint().exact().is_none() {
            self.over = true;
            let event = refusal::stream_event(&self.worker.spec.name, did, self.endpoint);
            let event =
                if self.tail.at_event_boundary() { event } else { [b"\n\n", &event[..]].concat().into() };
            return Poll::Ready(Some(Ok(event)));
        }
        if !self.broken {
            // hyper throws away what it has not written when a body fails. It writes while a body is pending.
            self.broken = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.over = true;
        self.exchange.cut();
        Poll::Ready(Some(Err(Interrupted)))
    }
}
