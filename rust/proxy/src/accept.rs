//! One serving thread: its listener, and its end.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::MissedTickBehavior;

use crate::config::ProxyConfig;
use crate::connection::{Guest, connection};
use crate::shard::{SWEEP_MS, Shard};
use crate::upstream;

/// Connections that wait in the kernel until they are accepted.
const BACKLOG: i32 = 1024;
/// How long a listener that could not accept waits: the process is out of files, and spinning frees none.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Threads for the look-up of workers' names.
const LOOKUP_THREADS: u32 = 2;

/// What a serving thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Serve.
    Run,
    /// Take nothing new, and finish what runs until then.
    Drain(Instant),
    /// End at once.
    Stop,
}

/// A listener on `address` which others may share.
pub(crate) fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    #[cfg(unix)]
    socket.set_reuse_port(true)?;
    // Connections inherit both from their listener. Without the first a small last chunk would wait for the
    // acknowledgement of the one before; without the second a client whose machine is gone would never leave.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&upstream::keepalive())?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Serves `listener` until it is told to stop, or has drained; true where every connection ended by itself.
pub(crate) fn run(
    shard: Shard,
    listener: std::net::TcpListener,
    orders: watch::Receiver<Order>,
) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(blocking_threads(shard.config()))
        .thread_name("warmroute-control")
        .build()?;
    let result = LocalSet::new().block_on(&runtime, async move {
        let listener = TcpListener::from_std(listener)?;
        let shard = Rc::new(shard);
        tokio::task::spawn_local(sweep(Rc::clone(&shard)));
        let mut orders = orders;
        accept(&shard, &listener, &mut orders).await;
        shard.drain();
        accept_rest(&shard, listener).await;
        finish(&shard, orders).await;
        Ok(shard.open() == 0)
    });
    // A control call that never comes back must not hold up the end.
    runtime.shutdown_background();
    result
}

/// Threads for calls that block: each kind that takes turns has its own, and looking up names takes none.
fn blocking_threads(config: &ProxyConfig) -> usize {
    (config.control_threads + config.encode_threads + LOOKUP_THREADS) as usize
}

async fn sweep(shard: Rc<Shard>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(SWEEP_MS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        shard.sweep();
    }
}

/// Takes connections until the order changes.
async fn accept(shard: &Rc<Shard>, listener: &TcpListener, orders: &mut watch::Receiver<Order>) {
    let config = shard.config();
    let most = (config.max_connections as usize).div_ceil(config.thread_count());
    loop {
        let connection = tokio::select! {
            biased;
            _ = orders.changed() => return,
            connection = listener.accept(), if shard.open() < most => connection,
            () = shard.left(), if shard.open() >= most => continue,
        };
        match connection {
            Ok((socket, _)) => start(shard, socket, false),
            // One client's failure is no reason to stop; a lack of files or memory passes.
            Err(error) if is_clients(&error) => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn is_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Takes the connections that the kernel has completed already: their clients would see them reset.
async fn accept_rest(shard: &Rc<Shard>, listener: TcpListener) {
    while let Poll::Ready(Ok((socket, _))) = poll_fn(|cx| Poll::Ready(listener.poll_accept(cx))).await {
        start(shard, socket, true);
    }
}

fn start(shard: &Rc<Shard>, socket: TcpStream, last: bool) {
    #[cfg(not(target_os = "linux"))]
    let _ = socket.set_nodelay(true);
    tokio::task::spawn_local(connection(Guest::new(Rc::clone(shard), socket, last)));
}

/// Waits for the open connections, until the order's deadline.
async fn finish(shard: &Shard, mut orders: watch::Receiver<Order>) {
    while shard.open() > 0 {
        let order = *orders.borrow_and_update();
        let Order::Drain(deadline) = order else { return };
        tokio::select! {
            _ = orders.changed() => {}
            () = tokio::time::sleep_until(deadline.into()) => return,
            () = shard.left() => {}
        }
    }
}
