//! One event, applied.

use std::iter::Peekable;

use parking_lot::MutexGuard;

use super::Mirror;
use super::pages::Pages;
use crate::block::{BlockHash, BlockHasher, Chain, Namespace};
use crate::event::{EngineHash, Event, Removed, Stored, Tier};
use crate::prefix::Forget;
use crate::time::Time;

/// The router's blocks that are taken into the index under one lock: a decision waits for two microseconds.
pub(super) const BLOCKS_AT_ONCE: usize = 8;
/// A block of an event in both names.
type Named = (EngineHash, BlockHash);

impl Mirror {
    pub(super) fn apply_event(&mut self, event: &Event<'_>, now: Time) {
        match event {
            Event::Stored(stored) => {
                if !self.follows(stored) {
                    self.stats.ignored_blocks += stored.hashes.len() as u64;
                } else if let Some(mut pages) = self.pages.take() {
                    self.stored_pages(&mut pages, stored, now);
                    self.pages = Some(pages);
                } else if stored.tier == Tier::Lower {
                    self.stored_lower(stored, now);
                } else {
                    self.stored(stored, now);
                }
                self.check_room();
            }
            Event::Removed(removed) => self.removed(removed),
            Event::Cleared => {
                self.stats.cleared += 1;
                self.in_doubt = false;
                self.forget_names();
                self.clear_router();
            }
        }
    }

    fn stored(&mut self, event: &Stored<'_>, now: Time) {
        let hasher = *self.router.hasher();
        let held = &self.tiers[Tier::Device as usize];
        let parent = match event.parent {
            None => None,
            Some(name) => match held.find(name) {
                Some(block) => Some(block),
                None => return self.stats.orphan_blocks += event.hashes.len() as u64,
            },
        };
        let hashes = hash_blocks(event, parent, &hasher);
        let parts = self.parts();
        let ends = hashes.iter().copied().skip(parts - 1).step_by(parts);
        let run: Vec<Named> = event.hashes.iter().copied().zip(ends).collect();
        self.stats.stored_blocks += run.len() as u64;
        let known = |index: usize| {
            let (name, block): Named = run[index];
            held.find(name) == Some(block)
        };
        let repeated = repeated(event, self.in_doubt, known);
        self.confirm(parent, &run, hashes, repeated, now);
    }

    /// Whether the event speaks of blocks that the index can hold.
    fn follows(&mut self, event: &Stored<'_>) -> bool {
        if event.remote || event.full_attention == Some(false) || event.is_nameless() {
            return false;
        }
        let group = event.group.unwrap_or_default();
        // Blocks of other groups have sizes of their own: that of ours is not learnt from them.
        if self.group.is_some_and(|known| known != group) {
            return false;
        }
        if event.tier == Tier::Lower && event.tokens.is_empty() {
            return true;
        }
        let fits = self.fits(event);
        if fits {
            self.group = Some(group);
        }
        fits
    }

    /// Whether the event's blocks are a whole number of the router's, or the other way round, and have their tokens.
    fn fits(&mut self, event: &Stored<'_>) -> bool {
        let block_size = event.block_size as usize;
        if event.hashes.is_empty()
            || block_size == 0
            || event.tokens.len() != event.hashes.len() * block_size * 4
        {
            return false;
        }
        let own_size = self.router.hasher().block_size();
        let fits = match (own_size.checked_rem(block_size), block_size.checked_rem(own_size)) {
            (_, Some(0)) => {
                let parts = block_size / own_size;
                self.pages.is_none() && *self.parts.get_or_insert(parts) == parts
            }
            (Some(0), _) if self.parts.is_none() => {
                let (parts, seed) = ((own_size / block_size) as u16, self.seed);
                let pages = self.pages.get_or_insert_with(|| Box::new(Pages::new(block_size, parts, seed)));
                pages.page_bytes() == block_size * 4
            }
            _ => false,
        };
        if !fits {
            self.stats.odd_blocks += event.hashes.len() as u64;
            self.stats.odd_block_size = event.block_size;
        }
        fits
    }

    fn confirm(
        &mut self,
        mut parent: Option<BlockHash>,
        run: &[Named],
        hashes: Vec<BlockHash>,
        mut repeated: usize,
        now: Time,
    ) {
        let parts = self.parts();
        let held = &mut self.tiers[Tier::Device as usize];
        let mut hashes = hashes.into_iter();
        let mut blocks = Vec::with_capacity(BLOCKS_AT_ONCE.max(parts));
        for part in run.chunks((BLOCKS_AT_ONCE / parts).max(1)) {
            blocks.clear();
            blocks.extend(hashes.by_ref().take(part.len() * parts));
            let mut router = self.router.lock_last();
            let confirmed = |block: &&BlockHash| router.is_confirmed(self.worker, Tier::Device, **block);
            let known = blocks.iter().take_while(confirmed).count();
            let stored = router.confirm(self.worker, Tier::Device, parent, &blocks, now);
            // To whoever sleeps for it, before this thread comes back.
            MutexGuard::unlock_fair(router);
            if stored.is_err() {
                // The parent went for the index's budget.
                self.stats.orphan_blocks += part.len() as u64;
            }
            held.warm(part.iter().map(|(name, _)| *name));
            for (index, (name, block)) in part.iter().enumerate() {
                if repeated > 0 && held.find(*name) == Some(*block) {
                    repeated -= 1;
                    self.stats.repeated_blocks += 1;
                    continue;
                }
                if let Some(gone) = held.add(*name, *block, (index + 1) * parts <= known) {
                    self.router.lock_last().evict(self.worker, Tier::Device, gone, parts);
                }
            }
            parent = blocks.last().copied();
        }
    }

    fn removed(&mut self, event: &Removed) {
        if event.remote || self.group.is_some_and(|group| group != event.group.unwrap_or_default()) {
            self.stats.ignored_blocks += event.hashes.len() as u64;
            return;
        }
        if let Some(mut pages) = self.pages.take() {
            self.removed_pages(&mut pages, event);
            self.pages = Some(pages);
            return;
        }
        let parts = self.parts();
        let held = &mut self.tiers[event.tier as usize];
        for &name in &event.hashes {
            if held.find(name).is_none() {
                self.stats.unknown_removals += 1;
                continue;
            }
            self.stats.removed_blocks += 1;
            if let Some(block) = held.remove(name) {
                self.router.lock_last().evict(self.worker, event.tier, block, parts);
            }
        }
    }

    /// How many of the router's blocks make one of the engine's.
    pub(super) fn parts(&self) -> usize {
        self.parts.unwrap_or(1)
    }

    /// The router forgets what the worker holds, and this is no news to the mirror.
    pub(super) fn clear_router(&mut self) {
        self.router.forget(self.worker, Forget::Everything, Time::ZERO);
        self.clears = self.router.lock_last().count_clear(self.worker).unwrap_or_default();
    }
}

/// How many of the known blocks of a run are announced again, and are no further copies.
///
/// A request may ask for the blocks that it reuses to be announced, all from the root. They are told from copies by
/// what comes first: an engine that holds a prompt's first block hits it, and does not store it again. A prompt of
/// one block is the exception, as its last token is always computed. After a loss the engine may hold what is not
/// known here, and every known block is taken for an announcement: rather a copy too few than one too many.
///
/// `known` says whether the block at an index is held by the same name.
pub(super) fn repeated(event: &Stored<'_>, in_doubt: bool, known: impl Fn(usize) -> bool) -> usize {
    let blocks = event.hashes.len();
    if event.parent.is_some() || blocks == 1 {
        0
    } else if in_doubt {
        blocks
    } else {
        (0..blocks).take_while(|index| known(*index)).count()
    }
}

/// Our hashes of a run, one or several for each block of the engine.
fn hash_blocks(event: &Stored<'_>, parent: Option<BlockHash>, hasher: &BlockHasher) -> Vec<BlockHash> {
    let mut chain = match parent {
        Some(block) => hasher.after(block),
        None => root(event, hasher),
    };
    let parts = event.block_size as usize / hasher.block_size();
    let mut keys = event.keys.iter().copied().peekable();
    let blocks = event.tokens.chunks_exact(hasher.block_size() * 4).enumerate();
    blocks.map(|(index, block)| chain.push_with(block, follow(&mut keys, index / parts))).collect()
}

/// The chain of the prompt that starts with the event.
pub(super) fn root(event: &Stored<'_>, hasher: &BlockHasher) -> Chain {
    hasher.chain(&Namespace {
        lora: event.lora.unwrap_or_default(),
        salt: event.salt.unwrap_or_default(),
        ..Namespace::default()
    })
}

/// What else than its tokens tells the block at `index` apart. It tells all of its parts.
pub(super) fn follow(keys: &mut Peekable<impl Iterator<Item = (u32, u64)>>, index: usize) -> Option<u64> {
    while keys.next_if(|(at, _)| (*at as usize) < index).is_some() {}
    keys.peek().filter(|(at, _)| *at as usize == index).map(|(_, key)| *key)
}
