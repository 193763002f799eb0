//! Every worker's overlap with a prompt, in one walk.

use super::PrefixIndex;
use super::walk::{Reach, common};
use crate::block::BlockHash;
use crate::ids::Slot;
use crate::time::Time;

/// How many leading blocks of a prompt one worker holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Confirmed or predicted.
    pub blocks: u32,
    /// Confirmed alone.
    pub confirmed: u32,
}

/// The overlaps of one prompt; kept by the caller, so that a lookup allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Overlaps {
    by_slot: Vec<Overlap>,
    /// The slots whose overlap is not zero, ascending.
    slots: Vec<Slot>,
}

impl Overlaps {
    /// No overlaps.
    pub fn new() -> Overlaps {
        Overlaps::default()
    }

    /// The overlap of one worker.
    pub fn get(&self, slot: Slot) -> Overlap {
        self.by_slot.get(slot.index()).copied().unwrap_or_default()
    }

    /// The workers whose overlap is not zero, by slot.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Slot, Overlap)> + '_ {
        self.slots.iter().map(|&slot| (slot, self.by_slot[slot.index()]))
    }

    /// Forgets every overlap.
    pub fn clear(&mut self) {
        for slot in self.slots.drain(..) {
            self.by_slot[slot.index()] = Overlap::default();
        }
    }
}

impl PrefixIndex {
    /// How many leading `blocks` each worker holds at `now`, into `out`.
    ///
    /// Predictions that have expired do not count, swept or not.
    pub fn lookup(&self, blocks: &[BlockHash], now: Time, out: &mut Overlaps) {
        out.clear();
        if out.by_slot.len() < self.workers.len() {
            out.by_slot.resize(self.workers.len(), Overlap::default());
        }
        let mut reach = Reach::ROOT;
        while let Some(child) = self.child(reach, blocks) {
            let node = &self.slab[child];
            let within = common(&node.run, &blocks[reach.depth..]);
            let start = reach.depth as u32;
            let mut alive = false;
            for holder in &node.holders {
                let overlap = &mut out.by_slot[holder.worker as usize];
                // Who holds everything up to here; whoever lost a block on the way stays where it was.
                if overlap.blocks != start {
                    continue;
                }
                let confirmed = usize::from(holder.confirmed).min(within) as u32;
                let held = if holder.expires > now {
                    usize::from(holder.held).min(within) as u32
                } else {
                    confirmed
                };
                if held == 0 {
                    continue;
                }
                if overlap.confirmed == start {
                    overlap.confirmed += confirmed;
                }
                overlap.blocks += held;
                alive |= held as usize == node.run.len();
                if start == 0 {
                    out.slots.push(Slot(holder.worker));
                }
            }
            if !alive {
                return;
            }
            reach = Reach { at: child, within, depth: reach.depth + within };
        }
    }
}
