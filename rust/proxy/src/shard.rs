//! What the requests of one thread share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use warmroute_core::admit::RetryBudget;
use warmroute_core::block::BlockHash;
use warmroute_core::router::SharedRouter;
use warmroute_prompt::Prompter;

use crate::body::Room;
use crate::config::ProxyConfig;
use crate::control::Control;
use crate::socket::{Call, Client, State};
use crate::stats::Counters;
use crate::tokens::shared::WorkerTokens;
use crate::upstream::Pools;

/// How long a connection that was taken during a drain may wait with its only request.
const LAST_IDLE_MS: u64 = 1_000;
/// Sweeps after which an idle connection gives its buffer back. A busy one keeps it: it takes several reads to grow.
const SHRINK_SWEEPS: u64 = 20;
/// Time between two sweeps: how exact idle times and clients' timeouts are.
pub(crate) const SWEEP_MS: u64 = 100;

/// What all threads share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) config: Arc<ProxyConfig>,
    pub(crate) router: SharedRouter,
    pub(crate) prompter: Arc<Prompter>,
    pub(crate) control: Arc<dyn Control>,
    /// What every way in takes its retries from.
    pub(crate) retries: Arc<RetryBudget>,
    /// What workers are asked about tokens.
    pub(crate) tokens: Arc<WorkerTokens>,
}

impl Shared {
    /// Takes a retry from the budget that all threads share.
    pub(crate) fn take_retry(&self) -> bool {
        self.retries.take(self.router.time(Instant::now()))
    }
}

/// What the requests of one thread share. It never leaves its thread.
pub(crate) struct Shard {
    pub(crate) shared: Shared,
    pub(crate) stats: Arc<Counters>,
    pub(crate) pools: Pools,
    /// Room for the blocks of the request that is being decided.
    pub(crate) blocks: RefCell<Vec<BlockHash>>,
    /// Room for the bodies of requests.
    pub(crate) room: Rc<Room>,
    /// Turns to encode a long prompt.
    pub(crate) encoders: Arc<Semaphore>,
    /// Turns to call [`Control`].
    pub(crate) controllers: Arc<Semaphore>,
    /// Requests that wait for a turn or have one.
    pub(crate) control_open: Arc<()>,
    random: RefCell<fastrand::Rng>,
    sweep: Rc<Cell<u64>>,
    clients: RefCell<HashMap<u64, Rc<Client>>>,
    next_client: Cell<u64>,
    left: Notify,
}

impl Shard {
    pub(crate) fn new(shared: Shared, stats: Arc<Counters>) -> Shard {
        let config = &shared.config;
        let sweep = Rc::new(Cell::new(0));
        let idle = sweeps(config.worker_idle_ms);
        let pools = Pools::new(config.idle_per_worker as usize, idle, Rc::clone(&sweep));
        Shard {
            stats,
            pools,
            blocks: RefCell::default(),
            room: Room::new(config.held_bodies_bytes),
            encoders: Arc::new(Semaphore::new(config.encode_threads as usize)),
            controllers: Arc::new(Semaphore::new(config.control_threads as usize)),
            control_open: Arc::new(()),
            random: RefCell::new(fastrand::Rng::new()),
            sweep,
            clients: RefCell::default(),
            next_client: Cell::new(0),
            left: Notify::new(),
            shared,
        }
    }

    pub(crate) fn config(&self) -> &ProxyConfig {
        &self.shared.config
    }

    pub(crate) fn random(&self) -> u64 {
        self.random.borrow_mut().u64(..)
    }

    /// Client connections that are open here.
    pub(crate) fn open(&self) -> usize {
        self.clients.borrow().len()
    }

    /// Takes in a client's connection; gives the key for [`Shard::leave`].
    pub(crate) fn enter(&self, socket: TcpStream, last: bool) -> (u64, Rc<Client>) {
        let client = Rc::new(Client::new(socket, Rc::clone(&self.sweep), last));
        let key = self.next_client.get();
        self.next_client.set(key + 1);
        self.clients.borrow_mut().insert(key, Rc::clone(&client));
        self.stats.connections.one();
        self.stats.connections_open.one();
        (key, client)
    }

    /// A client's connection is closed.
    pub(crate) fn leave(&self, key: u64) {
        if self.clients.borrow_mut().remove(&key).is_some() {
            self.stats.connections_open.less_one();
            self.left.notify_one();
        }
    }

    /// Lets every connection end with the request that runs on it.
    pub(crate) fn drain(&self) {
        for client in self.clients.borrow().values() {
            client.call(Call::Drain);
        }
    }

    /// Waits until a client's connection is closed.
    pub(crate) async fn left(&self) {
        self.left.notified().await;
    }

    /// Ends clients that are too slow, and connections to workers that were idle for too long.
    pub(crate) fn sweep(&self) {
        self.sweep.set(self.sweep.get() + 1);
        self.pools.sweep();
        let config = self.config();
        for client in self.clients.borrow().values() {
            let (state, for_sweeps) = client.state();
            let limit = match state {
                State::Idle if client.is_last() => LAST_IDLE_MS,
                State::Idle => config.idle_timeout_ms,
                State::Head => config.head_timeout_ms,
                State::Body => config.body_timeout_ms,
                State::Blocked => config.send_timeout_ms,
                State::Busy => continue,
            };
            if state == State::Idle && for_sweeps == SHRINK_SWEEPS && client.take_large() {
                client.call(Call::Shrink);
            }
            if for_sweeps > sweeps(limit) {
                self.stats.timeouts.one();
                client.call(Call::Expire);
            }
        }
    }
}

/// `millis` in sweeps, rounded up.
fn sweeps(millis: u64) -> u64 {
    millis.div_ceil(SWEEP_MS)
}
