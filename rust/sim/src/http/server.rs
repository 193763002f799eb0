//! The server's life.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::api::Api;
use super::driver::Driver;
use super::kv_log::KvLog;
use super::vocabulary::Vocabulary;
use super::{SimConfig, Snapshot, StartError, Tokenize};

/// A server with an engine, on a thread of its own. Dropping it stops it without waiting for its requests.
#[derive(Debug)]
pub struct SimServer {
    addr: SocketAddr,
    driver: Arc<Driver>,
    /// How long to wait for requests under way, once it is time to stop.
    stop: watch::Sender<Option<Duration>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SimServer {
    /// Starts a server; it answers when this returns.
    ///
    /// # Errors
    /// [`StartError`] for a configuration that cannot be, an address that is taken, or a system without
    /// threads to give.
    pub fn start(mut config: SimConfig, tokenize: Arc<dyn Tokenize>) -> Result<SimServer, StartError> {
        config.check()?;
        let vocabulary = Vocabulary::new(&*tokenize);
        config.engine.output_ids = vocabulary.ids();
        config.engine.kv_events = config.kv_events.is_some();
        let kv_log = config.kv_events.as_ref().map(|source| KvLog::new(source.buffer_steps));
        let max_queued = config.max_queued_requests;
        let driver = Arc::new(Driver::new(config.engine.clone(), config.speed, max_queued, kv_log)?);
        let (listener, addr) = bind(&config)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Runtime)?;
        let (stop, stopped) = watch::channel(None);
        let api = Arc::new(Api::new(config, Arc::clone(&driver), tokenize, vocabulary));
        let thread = std::thread::Builder::new()
            .name(format!("sim-{}", addr.port()))
            .spawn(move || runtime.block_on(serve(listener, api, stopped)))
            .map_err(StartError::Runtime)?;
        Ok(SimServer { addr, driver, stop, thread: Mutex::new(Some(thread)) })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The engine's totals and load.
    pub fn snapshot(&self) -> Snapshot {
        self.driver.snapshot()
    }

    /// Up to `max` numbered KV event batches that were not taken before, as msgpack; waits up to `timeout`
    /// for the first. Empty without `kv_events`. Numbers that are missing were dropped: the log is bounded.
    pub fn take_events(&self, max: usize, timeout: Duration) -> Vec<(u64, Bytes)> {
        self.driver.kv_log.as_ref().map_or_else(Vec::new, |log| log.take(max, timeout))
    }

    /// The numbered KV event batches that are still kept, from number `from` on.
    pub fn replay_from(&self, from: u64) -> Vec<(u64, Bytes)> {
        self.driver.kv_log.as_ref().map_or_else(Vec::new, |log| log.replay(from))
    }

    /// Takes no more connections, waits up to `grace` for the requests under way, and ends. Stopping what
    /// has stopped does nothing.
    pub fn stop(&self, grace: Duration) {
        let Some(thread) = self.thread.lock().take() else { return };
        // The thread has ended already if nobody listens; a panic in it was reported by the runtime.
        let _listens = self.stop.send(Some(grace));
        let _ended = thread.join();
    }
}

impl Drop for SimServer {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

fn bind(config: &SimConfig) -> Result<(TcpListener, SocketAddr), StartError> {
    let address = format!("{}:{}", config.host, config.port);
    let bound = TcpListener::bind((config.host.as_str(), config.port)).and_then(|listener| {
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        Ok((listener, addr))
    });
    bound.map_err(|source| StartError::Bind { address, source })
}

async fn serve(listener: TcpListener, api: Arc<Api>, mut stop: watch::Receiver<Option<Duration>>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let driver = Arc::clone(&api.driver);
    tokio::spawn(async move { driver.run().await });
    let open = GracefulShutdown::new();
    loop {
        tokio::select! {
            _ = stop.changed() => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => spawn_connection(socket, &open, &api),
                // Out of descriptors: those that are open go on, and some will close.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            },
        }
    }
    drop(listener);
    let grace = stop.borrow().unwrap_or_default();
    // Whoever is not done by then is cut off as the runtime ends.
    let _all_done = tokio::time::timeout(grace, open.shutdown()).await;
}

fn spawn_connection(socket: TcpStream, open: &GracefulShutdown, api: &Arc<Api>) {
    // A token is one small write: it goes out at once.
    let _nodelay = socket.set_nodelay(true);
    let api = Arc::clone(api);
    let service = service_fn(move |request| {
        let api = Arc::clone(&api);
        async move { Ok::<_, Infallible>(api.answer(request).await) }
    });
    let connection =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(socket), service);
    let connection = open.watch(connection);
    // A connection ends with an error when its client leaves, which is the client's affair.
    tokio::spawn(async move { drop(connection.await) });
}
