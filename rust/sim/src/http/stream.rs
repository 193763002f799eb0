//! The bodies of replies.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc::UnboundedReceiver;

use super::driver::{Ticket, Token};
use super::reply::Reply;

/// A reply's body: there at once, or a stream of server-sent events.
pub(super) enum ReplyBody {
    Whole(Option<Bytes>),
    Stream(Box<TokenStream>),
}

/// Events as the tokens come. Dropping it, as when the client leaves, aborts the requests.
pub(super) struct TokenStream {
    pub(super) reply: Reply,
    pub(super) tokens: UnboundedReceiver<Token>,
    /// Given back once the last token has come.
    pub(super) ticket: Option<Ticket>,
}

impl TokenStream {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.ticket.is_none() {
            return Poll::Ready(None);
        }
        let Some(token) = ready!(self.tokens.poll_recv(cx)) else {
            // The connection ends without the last chunk, so that no client takes the reply for complete.
            return Poll::Ready(Some(Err(io::Error::other("the engine has stopped"))));
        };
        let mut events = String::new();
        let last = self.reply.count(&token);
        self.reply.write_chunk(&token, &mut events);
        if last {
            self.reply.write_end(&mut events);
            self.ticket = None;
        }
        Poll::Ready(Some(Ok(Frame::data(events.into()))))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            ReplyBody::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            ReplyBody::Stream(stream) => stream.poll_events(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole(bytes) => bytes.is_none(),
            ReplyBody::Stream(stream) => stream.ticket.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            ReplyBody::Stream(_) => SizeHint::default(),
        }
    }
}
