//! The proxy as a whole: its threads, their orders, their counters.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;
use warmroute_core::admit::RetryBudget;
use warmroute_core::router::SharedRouter;
use warmroute_prompt::{Endpoint, Prompter};

use crate::accept::{self, Order};
use crate::config::ProxyConfig;
use crate::control::Control;
use crate::error::ProxyError;
use crate::shard::{Shard, Shared};
use crate::stats::{Counters, ProxyStats};
use crate::tokens::shared::WorkerTokens;

/// How long threads may take to end after their deadline before nobody waits for them.
const GRACE: Duration = Duration::from_secs(2);

/// A running HTTP proxy. Dropping it stops it.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    orders: watch::Sender<Order>,
    counters: Arc<[Arc<Counters>]>,
    tokens: Arc<WorkerTokens>,
    running: Arc<Running>,
}

/// The threads that still serve.
#[derive(Debug, Default)]
struct Running {
    threads: Mutex<usize>,
    ended: Condvar,
    /// Whether a thread closed connections that were in use.
    cut: AtomicBool,
}

impl Proxy {
    /// Listens on `host` and `port` (0 takes a free one) and serves requests from then on.
    ///
    /// `retries` is what its retries are taken from, in the router's time; see [`ProxyConfig::retry_budget`].
    ///
    /// # Errors
    /// [`ProxyError`]: an option that is not allowed, an address that cannot be had, no thread.
    pub fn start(
        host: &str,
        port: u16,
        config: ProxyConfig,
        router: SharedRouter,
        prompter: Arc<Prompter>,
        retries: Arc<RetryBudget>,
        control: Arc<dyn Control>,
    ) -> Result<Proxy, ProxyError> {
        config.validate()?;
        let threads = config.thread_count();
        let counters: Arc<[Arc<Counters>]> = (0..threads).map(|_| Arc::default()).collect();
        let tokens = Arc::new(WorkerTokens::new(&config));
        let shared = Shared {
            tokens: Arc::clone(&tokens),
            config: Arc::new(config),
            router,
            prompter,
            control,
            retries,
        };
        let (addr, listeners) = listeners(host, port, threads)?;
        let proxy =
            Proxy { addr, orders: watch::Sender::new(Order::Run), counters, tokens, running: Arc::default() };
        for (index, listener) in listeners.into_iter().enumerate() {
            proxy.serve(index, listener, shared.clone())?;
        }
        Ok(proxy)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it has counted.
    pub fn stats(&self) -> ProxyStats {
        let mut stats = ProxyStats::default();
        for counters in &*self.counters {
            counters.add_to(&mut stats);
        }
        stats.worker_tokens_bytes = self.tokens.bytes() as u64;
        stats
    }

    /// The token ids that a worker gave for `body` before, packed as little-endian `u32`; nobody is asked.
    pub fn worker_tokens(&self, endpoint: Endpoint, body: &[u8]) -> Option<Bytes> {
        self.tokens.known(endpoint, body)
    }

    /// Takes nothing new, waits until what runs has ended, at most `within`, and closes what is left.
    ///
    /// Returns whether everything ended by itself. Another thread may call [`Proxy::stop`] meanwhile.
    pub fn drain(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        self.orders.send_if_modified(|order| {
            let running = *order == Order::Run;
            if running {
                *order = Order::Drain(deadline);
            }
            running
        });
        self.wait(deadline + GRACE);
        self.stop();
        !self.running.cut.load(Ordering::SeqCst)
    }

    /// Closes everything at once.
    pub fn stop(&self) {
        self.orders.send_replace(Order::Stop);
        self.wait(Instant::now() + GRACE);
    }

    /// Waits until no thread serves, or until `deadline`.
    fn wait(&self, deadline: Instant) {
        let mut threads = self.running.threads.lock();
        while *threads > 0 && !self.running.ended.wait_until(&mut threads, deadline).timed_out() {}
    }

    fn serve(
        &self,
        index: usize,
        listener: std::net::TcpListener,
        shared: Shared,
    ) -> Result<JoinHandle<()>, ProxyError> {
        let stats = Arc::clone(&self.counters[index]);
        let orders = self.orders.subscribe();
        let running = Arc::clone(&self.running);
        *running.threads.lock() += 1;
        let body = move || {
            // Counts down in its drop, so that a thread that panics does not hold up the end.
            let serving = Serving(running);
            let whole = accept::run(Shard::new(shared, stats), listener, orders);
            serving.0.cut.fetch_or(!whole.unwrap_or(false), Ordering::SeqCst);
        };
        let spawned = std::thread::Builder::new().name(format!("warmroute-{index}")).spawn(body);
        spawned.map_err(ProxyError::Thread)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Serving(Arc<Running>);

impl Drop for Serving {
    fn drop(&mut self) {
        *self.0.threads.lock() -= 1;
        self.0.ended.notify_all();
    }
}

/// One listener for each thread, all on the same address.
fn listeners(
    host: &str,
    port: u16,
    threads: usize,
) -> Result<(SocketAddr, Vec<std::net::TcpListener>), ProxyError> {
    let bad_host = |source| ProxyError::Host { host: host.to_owned(), source };
    let mut refused = bad_host(std::io::ErrorKind::NotFound.into());
    // A name may have several addresses, and not each of them is this machine's.
    for address in (host, port).to_socket_addrs().map_err(bad_host)? {
        match listeners_on(address, threads) {
            Ok(listeners) => return Ok(listeners),
            Err(source) => refused = ProxyError::Listen { address, source },
        }
    }
    Err(refused)
}

fn listeners_on(
    address: SocketAddr,
    threads: usize,
) -> std::io::Result<(SocketAddr, Vec<std::net::TcpListener>)> {
    // Sockets that share a port would share it with another router's too, in silence. One that does not share finds
    // out whether somebody listens.
    drop(std::net::TcpListener::bind(address)?);
    let first = accept::listen(address)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..threads {
        listeners.push(accept::listen(address)?);
    }
    Ok((address, listeners))
}
