//! What engines say of their KV caches, taken into the index.

use std::time::Duration;

use super::Router;
use super::truth::Following;
use crate::block::{BlockHash, Units};
use crate::event::Tier;
use crate::ids::WorkerId;
use crate::load::ledger::Ended;
use crate::prefix::{Forget, Forgetting, UnknownParent};
use crate::time::Time;

/// Open requests that each decision looks at: more than one, so that it comes round to all.
const REQUESTS_AT_ONCE: usize = 2;

/// The worker is not one of the fleet any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl Router {
    /// How often everything that `worker` holds was forgotten: a change means that it may have restarted.
    pub(crate) fn clears(&self, worker: WorkerId) -> Result<u32, Gone> {
        self.present(worker)?;
        Ok(self.clears.get(worker.slot.index()).copied().unwrap_or_default())
    }

    /// The KV blocks that `worker` is known to have.
    pub(crate) fn known_kv_blocks(&self, worker: WorkerId) -> Option<u32> {
        self.present(worker).ok().and_then(|()| self.fleet.at(worker.slot)?.spec.kv_blocks)
    }

    /// Whether events said that `worker` holds `block` in `tier`.
    pub(crate) fn is_confirmed(&self, worker: WorkerId, tier: Tier, block: BlockHash) -> bool {
        let slot = worker.slot;
        self.present(worker).is_ok()
            && match tier {
                Tier::Device => self.index.is_confirmed(slot, block),
                Tier::Lower => self.index.is_lower(slot, block),
            }
    }

    /// `worker` holds `blocks` in `tier`, which follow `parent`.
    pub(crate) fn confirm(
        &mut self,
        worker: WorkerId,
        tier: Tier,
        parent: Option<BlockHash>,
        blocks: &[BlockHash],
        now: Time,
    ) -> Result<(), UnknownParent> {
        if self.present(worker).is_err() {
            return Ok(());
        }
        match tier {
            Tier::Device => self.index.store(worker.slot, parent, blocks, now),
            Tier::Lower => self.index.store_lower(worker.slot, parent, blocks, now),
        }
    }

    /// `worker` holds `block` in a lower tier, and those before it, `blocks` in all. The index has them.
    pub(crate) fn keep_lower(
        &mut self,
        worker: WorkerId,
        block: BlockHash,
        blocks: usize,
        now: Time,
    ) -> Result<(), UnknownParent> {
        if self.present(worker).is_err() {
            return Ok(());
        }
        self.index.keep_lower(worker.slot, block, blocks, now)
    }

    /// `worker` does not hold `block` in `tier` any more, nor those before it, `blocks` in all.
    pub(crate) fn evict(&mut self, worker: WorkerId, tier: Tier, block: BlockHash, blocks: usize) {
        if self.present(worker).is_ok() {
            self.following[worker.slot.index()].evictions += 1;
            match tier {
                Tier::Device => self.index.remove_back(worker.slot, block, blocks),
                Tier::Lower => self.index.remove_lower(worker.slot, block, blocks),
            }
        }
    }

    /// Begins to forget what `worker` holds; [`Router::forget_some`] goes on. It is no earlier than `now`.
    pub(crate) fn forget(&mut self, worker: WorkerId, what: Forget, now: Time) -> Result<Forgetting, Gone> {
        self.present(worker)?;
        self.now = self.now.max(now);
        if what == Forget::Everything {
            self.following[worker.slot.index()].inexact = false;
        }
        Ok(self.index.forget(worker.slot, what))
    }

    /// Forgets some more, which takes as long as it does to drop `blocks` blocks; says whether that was all.
    pub(crate) fn forget_some(
        &mut self,
        worker: WorkerId,
        forgetting: &mut Forgetting,
        blocks: usize,
    ) -> Result<bool, Gone> {
        self.present(worker)?;
        if forgetting.what() == Forget::Events {
            // Decisions that are made between two pieces are told from those before and after.
            let losses = &mut self.following[worker.slot.index()].losses;
            *losses = losses.wrapping_add(1);
        }
        let expires = self.now.after(Duration::from_millis(self.config.prediction_lifetime_ms));
        Ok(self.index.forget_some(worker.slot, forgetting, self.now, expires, blocks))
    }

    /// Tells whoever follows `worker` that what it held was forgotten; gives how often that was.
    pub(crate) fn count_clear(&mut self, worker: WorkerId) -> Result<u32, Gone> {
        self.present(worker)?;
        let index = worker.slot.index();
        if self.clears.len() <= index {
            self.clears.resize(index + 1, 0);
        }
        self.clears[index] = self.clears[index].wrapping_add(1);
        Ok(self.clears[index])
    }

    /// Says whether the events of `worker` are applied as they come, and how many of its blocks are copies of others.
    pub(crate) fn set_following(&mut self, worker: WorkerId, live: bool, copies: u32) {
        if self.present(worker).is_ok() {
            let following = &mut self.following[worker.slot.index()];
            (following.live, following.copies) = (live, copies);
        }
    }

    /// What requests use is not what their worker evicts next, however long ago they began: some of them are told to
    /// the index again, in turn.
    pub(super) fn keep_in_use(&mut self) {
        for _ in 0..REQUESTS_AT_ONCE {
            if let Some((worker, block)) = self.ledger.next_open()
                && self.present(worker).is_ok()
                && self.following[worker.slot.index()].live
            {
                self.index.used(worker.slot, block, 0);
            }
        }
    }

    /// A request has ended: its blocks are the ones used last, and its reply has filled some more.
    ///
    /// This is how an engine orders what it may evict. What it holds, events say better, where they name it: a prompt
    /// that was matched as text is in the engine's cache under tokens that are not known here.
    pub(super) fn free(&mut self, ended: &Ended) {
        let (slot, now) = (ended.worker.slot, self.now);
        let Some(block) = ended.last_block.filter(|_| self.present(ended.worker).is_ok()) else { return };
        let Following { live, inexact, .. } = self.following[slot.index()];
        let named = live && ended.units == Units::Tokens;
        let expires = now.after(Duration::from_millis(self.config.prediction_lifetime_ms));
        let block_size = u64::from(self.config.block_size);
        let prompt_tokens = ended.context_tokens - u64::from(ended.output_tokens);
        // The last token of a reply is never computed, and has no place in the cache.
        let computed = prompt_tokens + u64::from(ended.output_tokens).saturating_sub(1);
        let filled = computed / block_size - prompt_tokens / block_size;
        if named {
            self.index.used(slot, block, usize::try_from(filled).unwrap_or(usize::MAX));
        }
        if named && !inexact {
            return;
        }
        // What events have named takes room among the predictions that they do not name.
        let confirmed = named && self.index.is_confirmed(slot, block);
        let taken = if confirmed { filled + ended.uncached_tokens / block_size } else { filled };
        // The reply's blocks were made while the prompt's were in use.
        self.index.refresh(slot, block, now, expires);
        self.index.occupy(slot, u32::try_from(taken).unwrap_or(u32::MAX), expires);
    }

    /// Forgets everything that `worker` holds, at once.
    pub(super) fn clear(&mut self, worker: WorkerId) {
        if let (Ok(_), Ok(mut all)) =
            (self.count_clear(worker), self.forget(worker, Forget::Everything, self.now))
        {
            self.index.forget_some(worker.slot, &mut all, self.now, self.now, usize::MAX);
        }
    }

    pub(super) fn present(&self, worker: WorkerId) -> Result<(), Gone> {
        if self.fleet.at(worker.slot).is_some_and(|known| known.id == worker) { Ok(()) } else { Err(Gone) }
    }
}
