//! Lower tiers: what a worker has put away in its host's memory or on its disk, and can bring back.
//!
//! It is held by the same nodes as what lies on the device, under a name of its own for each worker: a block that
//! is in both places takes its hash and its place in the table once, and one budget covers both.

use super::node::Holder;
use super::walk::Reach;
use super::{Overlaps, PrefixIndex, UnknownParent};
use crate::block::BlockHash;
use crate::ids::Slot;
use crate::time::Time;

/// What tells a worker's lower tiers from its device, as a holder. Holders are sorted: devices come first.
pub(super) const LOWER: u32 = 1 << 31;

pub(super) fn lower(slot: Slot) -> Slot {
    Slot(slot.0 | LOWER)
}

impl PrefixIndex {
    /// Notes that a worker holds `blocks`, which follow `parent`, in a lower tier; see [`PrefixIndex::store`].
    ///
    /// # Errors
    /// [`UnknownParent`] where `parent` is not in the index: it never was, or was evicted.
    pub fn store_lower(
        &mut self,
        slot: Slot,
        parent: Option<BlockHash>,
        blocks: &[BlockHash],
        now: Time,
    ) -> Result<(), UnknownParent> {
        self.add_lower(slot);
        self.store(lower(slot), parent, blocks, now)
    }

    /// Notes that a worker holds `block`, which is in the index, and those before it, `blocks` in all, in a lower
    /// tier.
    ///
    /// # Errors
    /// [`UnknownParent`] where `block` is not in the index.
    pub fn keep_lower(
        &mut self,
        slot: Slot,
        block: BlockHash,
        blocks: usize,
        now: Time,
    ) -> Result<(), UnknownParent> {
        self.add_lower(slot);
        self.keep(lower(slot), block, blocks, now)
    }

    /// Notes that a worker does not hold `block` in a lower tier, nor those before it, `blocks` in all.
    pub fn remove_lower(&mut self, slot: Slot, block: BlockHash, blocks: usize) {
        self.remove_back(lower(slot), block, blocks);
    }

    /// Whether the worker is known to hold `block` in a lower tier.
    pub fn is_lower(&self, slot: Slot, block: BlockHash) -> bool {
        self.is_confirmed(lower(slot), block)
    }

    /// Blocks that the worker holds in lower tiers.
    pub fn lower_blocks(&self, slot: Slot) -> u64 {
        self.blocks(lower(slot)).0
    }

    /// Most workers have no such tier: a place for one is taken when the first block is put there.
    fn add_lower(&mut self, slot: Slot) {
        if self.worker(lower(slot)).is_none() && self.worker(slot).is_some() {
            self.add_worker(lower(slot), None);
        }
    }

    /// Confirms the last `blocks` blocks of a path that the index has.
    fn keep(&mut self, slot: Slot, block: BlockHash, blocks: usize, now: Time) -> Result<(), UnknownParent> {
        let (at, index) = self.find(block).ok_or(UnknownParent(block))?;
        if self.worker(slot).is_some() {
            self.now = self.now.max(now);
            self.confirm_path(slot, Reach { at, within: index + 1, depth: blocks });
        }
        Ok(())
    }
}

impl Overlaps {
    /// Goes on from what devices hold with what lower tiers do, in one node of a walk: `holders` are those of lower
    /// tiers, `within` is how much of the run the prompt has. Says whether a worker holds all of that.
    pub(super) fn reach_lower(&mut self, holders: &[Holder], start: u32, within: usize) -> bool {
        let mut alive = false;
        for holder in holders {
            let slot = (holder.worker & !LOWER) as usize;
            if self.lower.len() <= slot {
                self.lower.resize(slot + 1, 0);
            }
            let device = self.by_slot.get(slot).map_or(0, |overlap| overlap.blocks);
            let from = self.lower[slot].max(device);
            let to = start + usize::from(holder.held).min(within) as u32;
            if from < start || to <= from {
                continue;
            }
            if self.lower[slot] == 0 {
                self.lower_slots.push(slot as u32);
            }
            self.lower[slot] = to;
            alive |= to == start + within as u32;
        }
        alive
    }
}
