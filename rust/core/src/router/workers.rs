//! Workers come, change and go.

use std::sync::Arc;
use std::time::Duration;

use super::Router;
use super::hits::Hits;
use super::truth::{Following, Truth};
use crate::error::FleetError;
use crate::fleet::WorkerSpec;
use crate::ids::WorkerId;
use crate::load::ledger::Load;
use crate::load::observed::Observed;
use crate::time::Time;

impl Router {
    /// Takes in a worker, ready and with nothing cached.
    ///
    /// # Errors
    /// [`FleetError`] for a name that is taken or a block size that is not the router's.
    pub fn add_worker(&mut self, spec: WorkerSpec) -> Result<WorkerId, FleetError> {
        self.check_block_size(&spec)?;
        let worker = self.fleet.add(spec)?;
        self.ledger.add_worker(worker.id);
        self.index.add_worker(worker.id.slot, Some(self.kv_blocks(&worker)));
        self.served.add(&worker.spec);
        let slots = worker.id.slot.index() + 1;
        self.following.resize(self.following.len().max(slots), Following::default());
        self.truths.resize(self.truths.len().max(slots), Truth::default());
        self.following[slots - 1] = Following::default();
        self.hits.resize(self.hits.len().max(slots), Hits::default());
        self.hits[slots - 1] = Hits::default();
        self.truths[slots - 1] = Truth::default();
        Ok(worker.id)
    }

    /// Changes what is known of the worker named in `spec`.
    ///
    /// # Errors
    /// [`FleetError`] for an unknown name or a block size that is not the router's.
    pub fn update_worker(&mut self, spec: WorkerSpec) -> Result<(), FleetError> {
        self.check_block_size(&spec)?;
        let before = Arc::clone(self.fleet.get(&spec.name)?);
        let worker = self.fleet.update(spec)?;
        self.index.set_capacity(worker.id.slot, Some(self.kv_blocks(&worker)));
        self.served.remove(&before.spec);
        self.served.add(&worker.spec);
        Ok(())
    }

    /// Takes a step of at most `blocks` blocks towards the KV blocks in `spec`; says whether they are reached.
    pub(super) fn resize_some(&mut self, spec: &WorkerSpec, blocks: u32) -> Result<bool, FleetError> {
        let slot = self.fleet.get(&spec.name)?.id.slot;
        let wanted = spec.kv_blocks.unwrap_or(self.config.default_kv_blocks);
        let taken = u32::try_from(self.index.blocks(slot).1 + self.index.occupied(slot)).unwrap_or(u32::MAX);
        let next = wanted.max(taken.saturating_sub(blocks));
        self.index.set_capacity(slot, Some(next));
        Ok(next == wanted)
    }

    /// Says whether a worker answers. One that does not is taken to have lost its cache.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn set_ready(&mut self, name: &str, ready: bool) -> Result<(), FleetError> {
        let worker = self.fleet.set_ready(name, ready)?;
        if !ready {
            self.clear(worker.id);
        }
        Ok(())
    }

    /// Gives a worker nothing more; what it holds is not forgotten yet.
    pub(crate) fn pause(&mut self, name: &str) -> Result<WorkerId, FleetError> {
        self.fleet.set_ready(name, false).map(|worker| worker.id)
    }

    /// Lets a worker finish what it has, and gives it nothing more.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn drain_worker(&mut self, name: &str) -> Result<(), FleetError> {
        self.fleet.drain(name).map(drop)
    }

    /// Lets a worker that drains take requests again.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn resume_worker(&mut self, name: &str) -> Result<(), FleetError> {
        self.fleet.resume(name).map(drop)
    }

    /// Takes what a worker's own metrics say: `others` are the requests that this router did not send, `kv_usage` is
    /// the share of its KV blocks in active use. It counts for `valid`, beside the bookings.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn observe_worker(
        &mut self,
        name: &str,
        others: u32,
        kv_usage: f64,
        now: Time,
        valid: Duration,
    ) -> Result<(), FleetError> {
        let worker = Arc::clone(self.fleet.get(name)?);
        let own = self.ledger.load(worker.id.slot).map_or(0, Load::active_blocks);
        let used = (kv_usage.clamp(0.0, 1.0) * f64::from(self.kv_blocks(&worker))) as u64;
        let blocks = if others > 0 { used.saturating_sub(own) } else { 0 };
        let context_tokens = blocks * u64::from(self.config.block_size);
        let observed = Observed { requests: others, context_tokens, kv_usage };
        self.ledger.observe(worker.id, observed, now.after(valid));
        Ok(())
    }

    /// Forgets a worker and everything it holds. Leases on it stay valid, and book nothing any more.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn remove_worker(&mut self, name: &str) -> Result<(), FleetError> {
        let worker = self.fleet.remove(name)?;
        self.index.remove_worker(worker.id.slot);
        self.ledger.remove_worker(worker.id);
        self.served.remove(&worker.spec);
        Ok(())
    }

    pub(super) fn check_block_size(&self, spec: &WorkerSpec) -> Result<(), FleetError> {
        match spec.block_size {
            Some(block_size) if block_size != self.config.block_size => Err(FleetError::BlockSize {
                worker: spec.name.clone(),
                block_size,
                expected: self.config.block_size,
            }),
            _ => Ok(()),
        }
    }
}
