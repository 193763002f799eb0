//! One router for every way in, and leases that cannot leak.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use crate::block::{BlockHasher, Namespace};
use crate::config::RouterConfig;
use crate::error::{ConfigError, FleetError, RouteError};
use crate::fleet::WorkerSpec;
use crate::ids::WorkerId;
use crate::load::ledger::{Outcome, Reservation};
use crate::prefix::Forget;
use crate::router::{Decision, Others, RouteRequest, Router};
use crate::time::Time;

/// How often the lock is looked at before the thread sleeps for it, some ten microseconds in all. It is held for a
/// few; to sleep and be woken takes fifty.
const LOOKS: u32 = 512;
/// Blocks that are forgotten under one lock, or entries of the index that are looked at for it, at some sixty
/// nanoseconds each.
pub(super) const FORGOTTEN_AT_ONCE: usize = 64;

/// A router behind a lock. Cloning it is cheap, and every clone is the same router.
///
/// Prompts are hashed outside the lock; a decision holds it for a few microseconds, and so do events, a few blocks
/// at a time; so does what is forgotten of a worker that goes, restarts or loses events.
#[derive(Clone, Debug)]
pub struct SharedRouter {
    router: Arc<Mutex<Router>>,
    /// How many threads wait for the router to decide.
    waiting: Arc<AtomicU32>,
    hasher: BlockHasher,
    origin: Instant,
}

impl SharedRouter {
    /// A router without workers, whose time begins at `origin`.
    ///
    /// # Errors
    /// [`ConfigError`] for a value outside its range.
    pub fn new(config: RouterConfig, origin: Instant) -> Result<SharedRouter, ConfigError> {
        let router = Router::new(config)?;
        Ok(SharedRouter {
            hasher: router.hasher(),
            router: Arc::new(Mutex::new(router)),
            waiting: Arc::default(),
            origin,
        })
    }

    /// `moment` as this router's time: every way in has the same origin.
    pub fn time(&self, moment: Instant) -> Time {
        Time::ZERO.after(moment.saturating_duration_since(self.origin))
    }

    /// The hasher that callers cut their prompts with, outside the lock.
    pub fn hasher(&self) -> &BlockHasher {
        &self.hasher
    }

    /// What separates the blocks of a prompt; see [`Router::namespace`].
    pub fn namespace<'a>(&self, model: Option<&'a str>, salt: &'a str) -> Namespace<'a> {
        self.lock().namespace(model, salt)
    }

    /// The router itself, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Router> {
        if let Some(guard) = self.router.try_lock() {
            return guard;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.look(|| true);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// The same, after those who wait for it to decide: for whoever comes back for it again and again.
    pub(crate) fn lock_last(&self) -> MutexGuard<'_, Router> {
        self.look(|| self.waiting.load(Ordering::Relaxed) == 0)
    }

    /// Forgets what `worker` holds, a few blocks at a time: decisions go on meanwhile, on what is left. Whoever
    /// calls this for everything then says under one lock what has become of the worker.
    pub(crate) fn forget(&self, worker: WorkerId, what: Forget, now: Time) {
        let Ok(mut forgetting) = self.lock_last().forget(worker, what, now) else { return };
        loop {
            let mut router = self.lock_last();
            let done = router.forget_some(worker, &mut forgetting, FORGOTTEN_AT_ONCE);
            MutexGuard::unlock_fair(router);
            if done != Ok(false) {
                return;
            }
        }
    }

    /// [`Router::update_worker`]; what has no room in a smaller cache is forgotten a few blocks at a time.
    ///
    /// # Errors
    /// [`FleetError`] for an unknown name or a block size that is not the router's.
    pub fn update_worker(&self, spec: WorkerSpec) -> Result<(), FleetError> {
        self.lock().check_block_size(&spec)?;
        loop {
            let mut router = self.lock_last();
            let done = router.resize_some(&spec, FORGOTTEN_AT_ONCE as u32);
            MutexGuard::unlock_fair(router);
            if done? {
                return self.lock().update_worker(spec);
            }
        }
    }

    /// [`Router::set_ready`]; what a worker that is not ready held is forgotten a few blocks at a time.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn set_ready(&self, name: &str, ready: bool) -> Result<(), FleetError> {
        if ready {
            return self.lock().set_ready(name, true);
        }
        match self.pause(name)? {
            Some(mut router) => router.set_ready(name, false),
            None => Ok(()),
        }
    }

    /// [`Router::remove_worker`]; what it held is forgotten a few blocks at a time.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn remove_worker(&self, name: &str) -> Result<(), FleetError> {
        match self.pause(name)? {
            Some(mut router) => router.remove_worker(name),
            None => Ok(()),
        }
    }

    /// Takes a worker out, so that no request goes there while what it holds is forgotten. Gives nothing where the
    /// worker was removed meanwhile: whoever has the name then is another one.
    fn pause(&self, name: &str) -> Result<Option<MutexGuard<'_, Router>>, FleetError> {
        let worker = self.lock().pause(name)?;
        self.forget(worker, Forget::Everything, Time::ZERO);
        let router = self.lock();
        let still = router.fleet().iter().any(|(present, _)| present.id == worker);
        Ok(still.then_some(router))
    }

    /// Looks [`LOOKS`] times whether the lock is free and it is this thread's `turn`, and then sleeps for it.
    fn look(&self, turn: impl Fn() -> bool) -> MutexGuard<'_, Router> {
        for _ in 0..LOOKS {
            if turn()
                && !self.router.is_locked()
                && let Some(guard) = self.router.try_lock()
            {
                return guard;
            }
            std::hint::spin_loop();
        }
        self.router.lock()
    }

    /// Chooses a worker and books the load; see [`Router::route`].
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn route(&self, request: &RouteRequest<'_>, now: Time, random: u64) -> Result<Lease, RouteError> {
        let (decision, reservation) = self.lock().route(request, now, random)?;
        Ok(self.lease(request, decision, reservation))
    }

    /// The same with up to `limit` alternatives; see [`Router::route_among`].
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn route_among(
        &self,
        request: &RouteRequest<'_>,
        now: Time,
        random: u64,
        limit: usize,
    ) -> Result<(Lease, Others), RouteError> {
        let (decision, reservation, others) = self.lock().route_among(request, now, random, limit)?;
        Ok((self.lease(request, decision, reservation), others))
    }

    fn lease(&self, request: &RouteRequest<'_>, decision: Decision, reservation: Reservation) -> Lease {
        Lease {
            router: self.clone(),
            decision,
            tenant: request.tenant.into(),
            reservation: Some(reservation),
        }
    }
}

/// The owner of a reservation. Closing it, or dropping it, gives the load back, once.
#[derive(Debug)]
pub struct Lease {
    router: SharedRouter,
    decision: Decision,
    tenant: Box<str>,
    reservation: Option<Reservation>,
}

impl Lease {
    /// What was decided.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Whether the load is still booked.
    pub fn is_open(&self) -> bool {
        self.reservation.is_some()
    }

    /// The first token came: the prefill share of the load goes. Later calls change nothing.
    pub fn first_token(&self, now: Time) {
        if let Some(reservation) = &self.reservation {
            self.router.lock().first_token(reservation, now);
        }
    }

    /// The reply has `output_tokens` tokens so far.
    pub fn progress(&self, output_tokens: u32) {
        if let Some(reservation) = &self.reservation {
            self.router.lock().progress(reservation, output_tokens);
        }
    }

    /// The worker says how many prompt tokens it had cached.
    pub fn cached_tokens(&self, cached_tokens: u32) {
        self.router.lock().cached_tokens(&self.decision, cached_tokens);
    }

    /// The request ended. Later calls change nothing, and say so with `false`.
    pub fn close(&mut self, outcome: Outcome) -> bool {
        let Some(reservation) = self.reservation.take() else { return false };
        self.router.lock().close(reservation, &self.tenant, outcome);
        true
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.close(Outcome::Abandoned);
    }
}
