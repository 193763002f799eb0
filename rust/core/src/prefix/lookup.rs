//! Every worker's overlap with a prompt, in one walk.

use super::PrefixIndex;
use super::lower::LOWER;
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
    /// The blocks after them that the worker can bring back from a lower tier.
    pub lower: u32,
}

/// The overlaps of one prompt; kept by the caller, so that a lookup allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Overlaps {
    pub(super) by_slot: Vec<Overlap>,
    /// The slots whose overlap is not zero, ascending.
    slots: Vec<Slot>,
    /// By slot, leading blocks on the device or from there on in a lower tier; zero where no lower tier has any.
    pub(super) lower: Vec<u32>,
    /// The slots where that is not zero.
    pub(super) lower_slots: Vec<u32>,
}

impl Overlaps {
    /// No overlaps.
    pub fn new() -> Overlaps {
        Overlaps::default()
    }

    /// The overlap of one worker.
    pub fn get(&self, slot: Slot) -> Overlap {
        let mut overlap = self.by_slot.get(slot.index()).copied().unwrap_or_default();
        if !self.lower_slots.is_empty() {
            let reach = self.lower.get(slot.index()).copied().unwrap_or_default();
            overlap.lower = reach.saturating_sub(overlap.blocks);
        }
        overlap
    }

    /// The workers that hold leading blocks on the device, by slot.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Slot, Overlap)> + '_ {
        self.slots.iter().map(|&slot| (slot, self.get(slot)))
    }

    /// Forgets every overlap.
    pub fn clear(&mut self) {
        for slot in self.slots.drain(..) {
            self.by_slot[slot.index()] = Overlap::default();
        }
        for slot in self.lower_slots.drain(..) {
            self.lower[slot as usize] = 0;
        }
    }
}

impl PrefixIndex {
    /// How many leading `blocks` each worker holds at `now`, into `out`.
    ///
    /// Predictions that have expired do not count, swept or not. A lower tier counts where the device ends.
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
            for (at, holder) in node.holders.iter().enumerate() {
                if holder.worker & LOWER != 0 {
                    alive |= out.reach_lower(&node.holders[at..], start, within);
                    break;
                }
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
