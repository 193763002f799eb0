//! The engine in motion: steps it as time passes, and hands tokens to those who wait for them.

use std::sync::Arc;
use std::time::SystemTime;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use super::clock::Clock;
use super::kv_encode::encode_batch;
use super::kv_log::KvLog;
use crate::engine::{
    ConfigError, Counters, Emitted, Engine, EngineConfig, Load, RequestId, Submission, SubmitError,
};

/// The engine and those who wait for its tokens.
#[derive(Debug)]
pub(super) struct Driver {
    clock: Clock,
    block_size: u32,
    max_queued: Option<usize>,
    state: Mutex<State>,
    /// Told when an idle engine has work.
    work: Notify,
    pub(super) kv_log: Option<KvLog>,
}

#[derive(Debug)]
struct State {
    engine: Engine,
    listeners: HashMap<RequestId, Listener>,
    /// When the next step begins: as the one under way ends, or as an idle engine got work.
    next_step: f64,
    busy: bool,
    open_calls: usize,
    rejected: u64,
    peak_lag: f64,
}

#[derive(Debug)]
struct Listener {
    choice: usize,
    // Unbounded, and never longer than the reply: a client that reads slowly does not stop the engine.
    tokens: UnboundedSender<Token>,
}

/// A token for one of a call's prompts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    /// Which of the prompts.
    pub(super) choice: usize,
    pub(super) emitted: Emitted,
}

/// Where a server is.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Simulated seconds since the start.
    pub now: f64,
    /// The engine's totals.
    pub counters: Counters,
    /// The engine's load.
    pub load: Load,
    /// Generation calls that are not answered in full.
    pub open_calls: usize,
    /// Calls that were refused because too many wait.
    pub rejected: u64,
    /// How many simulated seconds the process was behind its engine at worst.
    pub peak_lag: f64,
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Too many requests wait.
    QueueFull,
    Submit(SubmitError),
}

impl Driver {
    pub(super) fn new(
        config: EngineConfig,
        speed: f64,
        max_queued: Option<usize>,
        kv_log: Option<KvLog>,
    ) -> Result<Driver, ConfigError> {
        let block_size = config.block_size;
        let state = State {
            engine: Engine::new(config)?,
            listeners: HashMap::new(),
            next_step: 0.0,
            busy: false,
            open_calls: 0,
            rejected: 0,
            peak_lag: 0.0,
        };
        let (clock, state) = (Clock::new(speed), Mutex::new(state));
        Ok(Driver { clock, block_size, max_queued, state, work: Notify::new(), kv_log })
    }

    /// Steps the engine for ever; returns only by being dropped.
    pub(super) async fn run(&self) {
        loop {
            let Some(end) = self.begin_step() else {
                self.work.notified().await;
                continue;
            };
            sleep_until(Instant::from_std(self.clock.instant(end))).await;
            self.end_step();
            // A process that lags steps without waiting: others get their turn all the same.
            tokio::task::yield_now().await;
        }
    }

    fn begin_step(&self) -> Option<f64> {
        let mut state = self.state.lock();
        let start = state.next_step;
        let seconds = state.engine.begin_step(start);
        state.busy = seconds.is_some();
        state.next_step = start + seconds.unwrap_or(0.0);
        seconds.map(|_| state.next_step)
    }

    fn end_step(&self) {
        let mut state = self.state.lock();
        let end = state.next_step;
        state.peak_lag = state.peak_lag.max(self.clock.now() - end);
        let output = state.engine.end_step(end);
        for emitted in output.tokens {
            let Some(listener) = state.listeners.get(&emitted.id) else { continue };
            // One who left is not waited for; its ticket takes the request out.
            let _left = listener.tokens.send(Token { choice: listener.choice, emitted });
            if emitted.finished.is_some() {
                state.listeners.remove(&emitted.id);
            }
        }
        drop(state);
        if let Some(log) = self.kv_log.as_ref().filter(|_| !output.events.is_empty()) {
            log.push(encode_batch(unix_seconds(), &output.events, self.block_size));
        }
    }

    /// Takes all requests of a call in, or none.
    pub(super) fn submit(
        self: &Arc<Driver>,
        submissions: Vec<Submission>,
    ) -> Result<(Ticket, UnboundedReceiver<Token>), Refusal> {
        let (tokens, receiver) = unbounded_channel();
        let mut state = self.state.lock();
        if self.max_queued.is_some_and(|most| state.engine.load().waiting + submissions.len() > most) {
            state.rejected += 1;
            return Err(Refusal::QueueFull);
        }
        let now = state.arrival(self.clock.now());
        let mut ticket = Ticket { driver: Arc::clone(self), requests: Vec::with_capacity(submissions.len()) };
        state.open_calls += 1;
        for (choice, submission) in submissions.into_iter().enumerate() {
            match state.engine.submit(submission, now) {
                Ok(id) => {
                    state.listeners.insert(id, Listener { choice, tokens: tokens.clone() });
                    ticket.requests.push(id);
                }
                Err(error) => {
                    // The ticket takes the lock itself when it is dropped.
                    drop(state);
                    return Err(Refusal::Submit(error));
                }
            }
        }
        drop(state);
        self.work.notify_one();
        Ok((ticket, receiver))
    }

    pub(super) fn reset_prefix_cache(&self, force: bool) -> bool {
        let cleared = self.state.lock().engine.reset_prefix_cache(force);
        self.work.notify_one();
        cleared
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        Snapshot {
            now: self.clock.now(),
            counters: state.engine.counters().clone(),
            load: state.engine.load(),
            open_calls: state.open_calls,
            rejected: state.rejected,
            peak_lag: state.peak_lag,
        }
    }
}

impl State {
    /// The moment of what happens at `now`: never after the next step's begin, however late that is.
    fn arrival(&mut self, now: f64) -> f64 {
        if !self.busy {
            self.busy = true;
            self.next_step = now;
        }
        now.min(self.next_step)
    }
}

/// A call's hold on its requests: dropping it aborts those that are not finished.
#[derive(Debug)]
pub(super) struct Ticket {
    driver: Arc<Driver>,
    requests: Vec<RequestId>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.driver.state.lock();
        state.open_calls -= 1;
        for &id in &self.requests {
            if state.listeners.remove(&id).is_some() {
                state.engine.abort(id);
            }
        }
    }
}

/// Real seconds since 1970.
pub(super) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
