//! Connections to workers: one pool for each thread, and no task of their own.
//!
//! A connection is polled by the request that uses it, inside the same task: nothing is passed between tasks, and
//! whoever drops the request closes the connection in the same instant.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use http::uri::Uri;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// When the system asks a silent peer whether it is there: a machine that is gone is noticed after 30 s. A long
/// prefill is no silence to it, because the machine answers for its process.
pub(crate) fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5))
        .with_retries(3)
}

/// A body that is sent to a worker.
pub(crate) type Body = Full<Bytes>;

/// The longest head of a worker's reply.
const MAX_HEAD_BYTES: usize = 128 << 10;

/// What moves a connection's bytes; nothing once it has ended.
type Driver = Option<Pin<Box<Connection<TokioIo<TcpStream>, Body>>>>;

/// Where a worker serves.
#[derive(Debug)]
pub(crate) struct Target {
    /// The `host` header of requests to it.
    pub(crate) host: HeaderValue,
    name: Box<str>,
    port: u16,
    idle: RefCell<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    upstream: Upstream,
    since: u64,
}

/// A connection to a worker.
#[derive(Debug)]
pub(crate) struct Upstream {
    sender: SendRequest<Body>,
    connection: Driver,
}

/// Why a worker gave no reply.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The connection ended.
    Closed,
    /// What came is not HTTP.
    Garbage,
}

impl Upstream {
    /// Sends `request` and waits for the head of the reply.
    pub(crate) async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, SendError> {
        poll_fn(|cx| self.poll_ready(cx)).await.map_err(|()| SendError::Closed)?;
        let mut reply = pin!(self.sender.send_request(request));
        let result = poll_fn(|cx| {
            // A connection that ends tells the waiting side why, so its own result is not looked at.
            let open = drive(&mut self.connection, cx);
            match reply.as_mut().poll(cx) {
                Poll::Pending if !open => Poll::Ready(Err(SendError::Closed)),
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(reply)) => Poll::Ready(Ok(reply)),
                Poll::Ready(Err(error)) if error.is_parse() => Poll::Ready(Err(SendError::Garbage)),
                Poll::Ready(Err(_)) => Poll::Ready(Err(SendError::Closed)),
            }
        });
        result.await
    }

    /// Moves the connection's input and output on; false once it has ended.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        drive(&mut self.connection, cx)
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ()>> {
        if !self.drive(cx) {
            return Poll::Ready(Err(()));
        }
        self.sender.poll_ready(cx).map_err(|_| ())
    }
}

fn drive(connection: &mut Driver, cx: &mut Context<'_>) -> bool {
    if let Some(open) = connection
        && open.as_mut().poll(cx).is_ready()
    {
        *connection = None;
    }
    connection.is_some()
}

/// The connections of one thread to every worker.
#[derive(Debug)]
pub(crate) struct Pools {
    targets: RefCell<HashMap<Box<str>, Option<Rc<Target>>>>,
    sweep: Rc<Cell<u64>>,
    builder: Builder,
    keep: usize,
    idle_sweeps: u64,
}

impl Pools {
    /// Pools that keep `keep` idle connections to each worker, each for `idle_sweeps` sweeps.
    pub(crate) fn new(keep: usize, idle_sweeps: u64, sweep: Rc<Cell<u64>>) -> Pools {
        let mut builder = Builder::new();
        builder.max_header_size(MAX_HEAD_BYTES).writev(true);
        Pools { targets: RefCell::default(), sweep, builder, keep, idle_sweeps }
    }

    /// The worker at `url`; nothing where it is no `http://` address.
    pub(crate) fn target(&self, url: &str) -> Option<Rc<Target>> {
        if let Some(target) = self.targets.borrow().get(url) {
            return target.clone();
        }
        let target = Target::parse(url).map(Rc::new);
        self.targets.borrow_mut().insert(url.into(), target.clone());
        target
    }

    /// A kept connection to `target` that is still open.
    pub(crate) fn take(&self, target: &Target, cx: &mut Context<'_>) -> Option<Upstream> {
        loop {
            // The one used last: it is the least likely to have been closed, and the rest may age.
            let Idle { mut upstream, since } = target.idle.borrow_mut().pop()?;
            let fresh = self.sweep.get() - since <= self.idle_sweeps;
            if fresh && upstream.drive(cx) && upstream.sender.is_ready() {
                return Some(upstream);
            }
        }
    }

    /// Makes a connection to `target`.
    pub(crate) async fn connect(&self, target: &Target, within: Duration) -> io::Result<Upstream> {
        let connect = async {
            let socket = match target.name.parse() {
                Ok(ip) => TcpStream::connect(SocketAddr::new(ip, target.port)).await?,
                Err(_) => TcpStream::connect((&*target.name, target.port)).await?,
            };
            socket.set_nodelay(true)?;
            SockRef::from(&socket).set_tcp_keepalive(&keepalive())?;
            let io = TokioIo::new(socket);
            let (sender, connection) = self.builder.handshake(io).await.map_err(io::Error::other)?;
            Ok(Upstream { sender, connection: Some(Box::pin(connection)) })
        };
        tokio::time::timeout(within, connect).await?
    }

    /// Keeps a connection whose reply was read to its end, where the worker keeps it too.
    pub(crate) fn keep(&self, target: &Target, mut upstream: Upstream, cx: &mut Context<'_>) {
        let mut idle = target.idle.borrow_mut();
        if idle.len() < self.keep && upstream.drive(cx) && upstream.sender.is_ready() {
            idle.push(Idle { upstream, since: self.sweep.get() });
        }
    }

    /// Closes connections that were idle for too long, and forgets addresses that nothing is sent to.
    pub(crate) fn sweep(&self) {
        let now = self.sweep.get();
        self.targets.borrow_mut().retain(|_, target| {
            let Some(target) = target else { return false };
            let mut idle = target.idle.borrow_mut();
            let old = idle.iter().take_while(|each| now - each.since > self.idle_sweeps).count();
            idle.drain(..old);
            !idle.is_empty() || Rc::strong_count(target) > 1
        });
    }
}

impl Target {
    fn parse(url: &str) -> Option<Target> {
        let uri: Uri = url.parse().ok()?;
        if uri.scheme_str() != Some("http") {
            return None;
        }
        let authority = uri.authority()?;
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        Some(Target {
            host: HeaderValue::from_str(authority.as_str()).ok()?,
            name: name.into(),
            port: authority.port_u16().unwrap_or(80),
            idle: RefCell::default(),
        })
    }
}
