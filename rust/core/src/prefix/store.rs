//! Confirmations: what a worker says it holds.

use std::fmt;

use super::PrefixIndex;
use super::mark::Mark;
use super::walk::Reach;
use crate::block::BlockHash;
use crate::ids::Slot;
use crate::time::Time;

/// A run of blocks cannot be stored: the block before it is not in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownParent(pub BlockHash);

impl fmt::Display for UnknownParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the parent block {:016x} is not in the index", self.0.0)
    }
}

impl std::error::Error for UnknownParent {}

impl PrefixIndex {
    /// Notes that a worker holds `blocks`, which follow `parent`, or start a prompt where it is none.
    ///
    /// The parent may be known from any worker. Storing again what is stored changes nothing but what is
    /// recently used. Nothing happens for an unknown worker.
    ///
    /// # Errors
    /// [`UnknownParent`] where `parent` is not in the index: it never was, or was evicted.
    pub fn store(
        &mut self,
        slot: Slot,
        parent: Option<BlockHash>,
        blocks: &[BlockHash],
        now: Time,
    ) -> Result<(), UnknownParent> {
        let start = match parent {
            None => Reach::ROOT,
            Some(parent) => {
                let (at, index) = self.find(parent).ok_or(UnknownParent(parent))?;
                Reach { at, within: index + 1, depth: 0 }
            }
        };
        if self.worker(slot).is_none() {
            return Ok(());
        }
        self.now = self.now.max(now);
        let reach = self.descend(start, blocks);
        let reach = self.grow(reach, blocks);
        self.confirm_path(slot, reach);
        Ok(())
    }

    /// Confirms the last `reach.depth` blocks of a path.
    pub(super) fn confirm_path(&mut self, slot: Slot, reach: Reach) {
        let deepest = self.mark(reach, slot.0, Mark::Confirmed);
        self.finish(deepest);
    }
}
