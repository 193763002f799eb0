//! How much a mirror keeps: what an engine says of itself is not believed without a bound.

use super::Mirror;
use super::held::Held;
use super::pages::Pages;
use crate::event::Tier;

/// Blocks in lower tiers. Not every connector says what it drops: past this, all of them are forgotten.
const MAX_LOWER: usize = 1 << 22;
/// Blocks of an engine that are not worth a look at how many it has.
const FEW: usize = 1024;

impl Mirror {
    /// Forgets all where it is more than can be: everything is a guess then.
    ///
    /// An engine that holds more than twice the blocks that it has loses events. What nobody knows the blocks of may
    /// have any number; its names take no more memory than the operator gives to the index, which is what they are
    /// for: beyond it they would name blocks that the index has no room for. Lower tiers have half of that.
    pub(super) fn check_room(&mut self) {
        let parts = self.pages.as_ref().map_or(1, |pages| pages.parts());
        let [blocks, lower] = [Tier::Device, Tier::Lower].map(|tier| self.held(tier));
        let known = if blocks > FEW { self.router.lock_last().known_kv_blocks(self.worker) } else { None };
        let limit = known.map_or(usize::MAX, |blocks| (blocks as usize * 2 + FEW) * parts);
        let (taken, most) = self.names();
        if blocks > limit || taken > most {
            self.stats.forgotten_blocks += (blocks + lower) as u64;
            self.stats.losses += 1;
            self.in_doubt = true;
            self.forget_names();
            self.clear_router();
        } else if lower > (MAX_LOWER * parts).min(most / 2) {
            self.stats.forgotten_blocks += lower as u64;
            self.forget_lower();
        }
    }

    /// How many names are kept, and how many may be.
    fn names(&self) -> (usize, usize) {
        let held: usize = self.tiers.iter().map(Held::names).sum();
        match &self.pages {
            Some(pages) => (pages.kept(), self.max_bytes / (Pages::NAME_BYTES + pages.page_bytes())),
            None => (held, self.max_bytes / Held::NAME_BYTES),
        }
    }
}
