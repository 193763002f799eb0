//! A client's socket: what hyper reads and writes, and what tells that the client left.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// How long a client may go on sending what was refused.
const SWALLOW: Duration = Duration::from_secs(2);

/// A buffer that is worth giving back when its connection lies idle.
const LARGE: usize = 32 << 10;

/// What a client's connection is doing, for the timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Between requests.
    Idle,
    /// A part of a request's head has come.
    Head,
    /// A request's body is being read.
    Body,
    /// A request is being answered.
    Busy,
    /// A reply waits for the client to take it.
    Blocked,
}

/// Why a connection's task is woken apart from its bytes; a later one outweighs an earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    /// It is not.
    #[default]
    None,
    /// It lies idle with a large buffer.
    Shrink,
    /// Nothing new is taken: the connection ends with the request that runs.
    Drain,
    /// Its client is too slow.
    Expire,
}

/// A client's connection, as its parts share it.
#[derive(Debug)]
pub(crate) struct Client {
    socket: TcpStream,
    state: Cell<State>,
    /// The sweep at which the state was entered, or last moved on.
    since: Cell<u64>,
    /// The sweep going on.
    sweep: Rc<Cell<u64>>,
    /// Whether a part of a reply waits for the client.
    blocked: Cell<bool>,
    /// Whether hyper's buffer has grown.
    large: Cell<bool>,
    call: Cell<Call>,
    called: Notify,
    /// Whether bytes of the client lie unread that nobody will read.
    unread: Cell<bool>,
    /// Whether one request is all that it may send.
    last: bool,
}

impl Client {
    /// With `last`, the connection serves one request.
    pub(crate) fn new(socket: TcpStream, sweep: Rc<Cell<u64>>, last: bool) -> Client {
        Client {
            socket,
            state: Cell::new(State::Idle),
            since: Cell::new(sweep.get()),
            sweep,
            blocked: Cell::new(false),
            large: Cell::new(false),
            call: Cell::default(),
            called: Notify::new(),
            unread: Cell::new(false),
            last,
        }
    }

    /// The connection enters `state`.
    pub(crate) fn enter(&self, state: State) {
        self.state.set(state);
        self.since.set(self.sweep.get());
    }

    /// What it does, and for how many sweeps.
    pub(crate) fn state(&self) -> (State, u64) {
        (self.state.get(), self.sweep.get() - self.since.get())
    }

    /// Whether it serves one request only.
    pub(crate) fn is_last(&self) -> bool {
        self.last
    }

    /// The rest of a request will not be read.
    pub(crate) fn leave_unread(&self) {
        self.unread.set(true);
    }

    /// Whether the rest of a request was not read.
    pub(crate) fn is_unread(&self) -> bool {
        self.unread.get()
    }

    /// Whether nothing is under way and every byte of the last reply is written.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.state.get() == State::Idle && !self.blocked.get()
    }

    /// Whether hyper's buffer has grown since the last call.
    pub(crate) fn take_large(&self) -> bool {
        self.large.take()
    }

    /// Wakes the connection's task, to do as `call` says.
    pub(crate) fn call(&self, call: Call) {
        self.call.set(self.call.get().max(call));
        self.called.notify_one();
    }

    /// Waits for the next [`Client::call`].
    pub(crate) async fn called(&self) -> Call {
        self.called.notified().await;
        self.call.take()
    }

    /// Waits until the client has closed its side of the connection, or all of it.
    ///
    /// hyper notices a departure by reading, and it stops reading while a request is in flight and bytes of the
    /// next one lie in its buffer. This looks at the socket's state instead, whatever lies unread.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) async fn departed(&self) {
        // Urgent data is not asked for, so that what is left of this interest is the end of the reading side.
        let _ = self.socket.ready(Interest::PRIORITY).await;
    }

    /// On other systems hyper's own detection has to do.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) async fn departed(&self) {
        std::future::pending::<()>().await;
    }

    /// Closes the connection with a reset instead of an orderly end.
    pub(crate) fn reset_on_close(&self) {
        // Where the system refuses, the connection ends in order: nothing better is to be had.
        let _ = socket2::SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
    }

    /// Takes what the client still sends, for a while, and throws it away.
    ///
    /// A connection that is closed while bytes lie unread is reset, and the reset may overtake the reply: a client
    /// that sends a body which was refused would not see why.
    pub(crate) async fn swallow(&self) {
        let mut bytes = vec![0; 64 << 10];
        let swallowed = async {
            while self.socket.readable().await.is_ok() {
                match self.socket.try_read(&mut bytes) {
                    Ok(0) => return,
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                    _ => {}
                }
            }
        };
        let _ = tokio::time::timeout(SWALLOW, swallowed).await;
    }

    /// Reads once, and where that emptied the socket, tells the runtime so: hyper reads on until there is nothing
    /// more, and each request would cost one more system call only to hear it.
    fn read(&self, buf: &mut ReadBuf<'_>) -> io::Result<usize> {
        let room = buf.remaining();
        if room > LARGE {
            self.large.set(true);
        }
        let mut read = Ok(0);
        let _ = self.socket.try_io(Interest::READABLE, || {
            read = self.socket.try_read_buf(buf);
            match read {
                Ok(count) if !emptied(count, room) => Ok(()),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            }
        });
        read
    }

    fn received(&self) {
        match self.state.get() {
            State::Idle => self.enter(State::Head),
            State::Body => self.enter(State::Body),
            State::Head | State::Busy | State::Blocked => {}
        }
    }

    fn sent(&self, blocked: bool) {
        self.blocked.set(blocked);
        match (self.state.get(), blocked) {
            (State::Busy, true) => self.enter(State::Blocked),
            (State::Blocked, false) => self.enter(State::Busy),
            _ => {}
        }
    }
}

/// Whether a read of `count` bytes into `room` left nothing, as Linux lets one conclude.
fn emptied(count: usize, room: usize) -> bool {
    cfg!(target_os = "linux") && count > 0 && count < room
}

/// The side of it that hyper reads from and writes to.
#[derive(Debug)]
pub(crate) struct Stream {
    client: Rc<Client>,
    /// What was read before this stream began.
    ahead: Bytes,
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.ahead.is_empty() {
            let bytes = this.ahead.split_to(this.ahead.len().min(buf.remaining()));
            buf.put_slice(&bytes);
            return Poll::Ready(Ok(()));
        }
        let client = &*this.client;
        loop {
            ready!(client.socket.poll_read_ready(cx))?;
            match client.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(count) => {
                    if count > 0 {
                        client.received();
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl Stream {
    /// One whose first bytes are `ahead`, which were read from `client` before.
    pub(crate) fn new(client: Rc<Client>, ahead: Bytes) -> Stream {
        Stream { client, ahead }
    }

    fn write(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let client = &*self.client;
        loop {
            if client.socket.poll_write_ready(cx)?.is_pending() {
                client.sent(true);
                return Poll::Pending;
            }
            match write(&client.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    client.sent(false);
                    return Poll::Ready(result);
                }
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write(cx, |socket| socket.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |socket| socket.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = socket2::SockRef::from(&self.client.socket);
        Poll::Ready(match socket.shutdown(std::net::Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result,
        })
    }
}
