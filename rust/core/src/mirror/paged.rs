//! Events of engines whose blocks are smaller than the router's.

use std::collections::HashMap;

use parking_lot::MutexGuard;

use super::Mirror;
use super::apply::{BLOCKS_AT_ONCE, follow, root};
use super::pages::{Change, Pages};
use crate::block::BlockHash;
use crate::event::{Removed, Stored, Tier};
use crate::time::Time;

/// Blocks that several last pages stand for, by tier: how many beyond the first.
pub(super) type Twins = HashMap<(Tier, BlockHash), u32>;

impl Mirror {
    pub(super) fn stored_pages(&mut self, pages: &mut Pages, event: &Stored<'_>, now: Time) {
        let mut changes = [Vec::new(), Vec::new()];
        let placed = self.place_pages(pages, event, &mut changes);
        self.stats.orphan_blocks += (event.hashes.len() - placed) as u64;
        self.stats.stored_blocks += placed as u64;
        self.change(&changes, now);
    }

    pub(super) fn removed_pages(&mut self, pages: &mut Pages, event: &Removed) {
        let mut changes = [Vec::new(), Vec::new()];
        for &name in &event.hashes {
            match pages.find(name).filter(|id| pages.is_held(*id, event.tier)) {
                Some(id) => pages.release(id, event.tier, &mut changes[event.tier as usize]),
                None => {
                    self.stats.unknown_removals += 1;
                    continue;
                }
            }
            self.stats.removed_blocks += 1;
        }
        self.change(&changes, Time::ZERO);
    }

    /// Takes in a run of pages; gives how many have a place.
    fn place_pages(
        &mut self,
        pages: &mut Pages,
        event: &Stored<'_>,
        changes: &mut [Vec<Change>; 2],
    ) -> usize {
        let hasher = *self.router.hasher();
        let tier = event.tier;
        let mut at = match event.parent {
            // See `Mirror::place` for why the first page of a prompt is not always believed.
            None if tier == Tier::Lower && self.in_doubt => None,
            None => Some(Pages::start(root(event, &hasher).state())),
            Some(name) => pages.find(name).map(|id| pages.after(id)),
        };
        let mut repeated = match tier {
            Tier::Device => self.repeated_pages(pages, event),
            Tier::Lower => 0,
        };
        let mut keys = event.keys.iter().copied().peekable();
        let mut tokens = event.tokens.chunks_exact(pages.page_bytes());
        let mut placed = 0;
        for (index, &name) in event.hashes.iter().enumerate() {
            let (key, tokens) = (follow(&mut keys, index), tokens.next());
            // What is put away was on the device before, under the same name; see `mirror::lower`.
            let known = pages.find(name).filter(|_| tier == Tier::Lower);
            let id = match (known, at, tokens) {
                (Some(id), ..) => id,
                (None, Some(at), Some(tokens)) => pages.page(name, at, tokens, key, &hasher, changes),
                _ => {
                    at = None;
                    continue;
                }
            };
            placed += 1;
            at = Some(pages.after(id));
            if repeated > 0 && pages.is_held(id, tier) {
                repeated -= 1;
                self.stats.repeated_blocks += 1;
            } else {
                pages.hold(id, tier, &mut changes[tier as usize]);
            }
        }
        placed
    }

    /// [`super::apply::repeated`] for pages.
    fn repeated_pages(&self, pages: &Pages, event: &Stored<'_>) -> usize {
        let held = |name| pages.find(name).is_some_and(|id| pages.is_held(id, Tier::Device));
        super::apply::repeated(event, self.in_doubt, |index| held(event.hashes[index]))
    }

    /// Tells the router what the changes of pages mean.
    fn change(&mut self, changes: &[Vec<Change>; 2], now: Time) {
        for tier in [Tier::Device, Tier::Lower] {
            for changes in changes[tier as usize].chunks(BLOCKS_AT_ONCE) {
                let mut router = self.router.lock_last();
                for change in changes {
                    match *change {
                        Change::Whole { block, .. } if router.is_confirmed(self.worker, tier, block) => {
                            *self.twins.entry((tier, block)).or_default() += 1;
                        }
                        Change::Whole { parent, block } => {
                            if router.confirm(self.worker, tier, parent, &[block], now).is_err() {
                                self.stats.orphan_blocks += 1;
                            }
                        }
                        Change::Broken { block } => match self.twins.get_mut(&(tier, block)) {
                            Some(1) => drop(self.twins.remove(&(tier, block))),
                            Some(twins) => *twins -= 1,
                            None => router.evict(self.worker, tier, block, 1),
                        },
                    }
                }
                MutexGuard::unlock_fair(router);
            }
        }
    }
}
