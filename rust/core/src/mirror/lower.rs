//! Blocks that are put away in a lower tier.
//!
//! Engines say less of these: vLLM's offloading names blocks and gives neither tokens nor what comes before them,
//! unless it is told to. What is put away was on the device before, under the same name.

use std::ops::Range;

use parking_lot::MutexGuard;

use super::Mirror;
use super::apply::{BLOCKS_AT_ONCE, follow, root};
use crate::block::{BlockHash, Chain};
use crate::event::{EngineHash, Stored, Tier};
use crate::prefix::Forget;
use crate::time::Time;

/// A block that can be placed.
struct Put {
    name: EngineHash,
    block: BlockHash,
    /// Of the hashes of new blocks; empty where the index has the block already.
    new: Range<usize>,
    /// What comes before them.
    parent: Option<BlockHash>,
}

impl Mirror {
    pub(super) fn stored_lower(&mut self, event: &Stored<'_>, now: Time) {
        let blocks = event.hashes.len() as u64;
        let mut hashes = Vec::new();
        let puts = self.place(event, &mut hashes);
        self.stats.orphan_blocks += blocks - puts.len() as u64;
        for puts in puts.chunks((BLOCKS_AT_ONCE / self.parts()).max(1)) {
            self.put_away(puts, &hashes, now);
        }
    }

    pub(super) fn forget_lower(&mut self) {
        self.tiers[Tier::Lower as usize].clear();
        self.pages.iter_mut().for_each(|pages| pages.clear_lower());
        self.twins.retain(|(tier, _), _| *tier == Tier::Device);
        self.router.forget(self.worker, Forget::LowerTiers, Time::ZERO);
    }

    /// Finds the event's blocks: by name, or by their tokens where those before them are found.
    fn place(&self, event: &Stored<'_>, hashes: &mut Vec<BlockHash>) -> Vec<Put> {
        let hasher = *self.router.hasher();
        let parts = self.parts();
        let mut parent = event.parent.and_then(|name| self.known(name));
        let mut chain: Option<Chain> = match event.parent {
            // vLLM's offloading says no salt. What is put away has a name here, unless that was lost: then a prompt's
            // first block may be salted, and stays unknown.
            None => (!self.in_doubt).then(|| root(event, &hasher)),
            Some(_) => parent.map(|block| hasher.after(block)),
        };
        let mut keys = event.keys.iter().copied().peekable();
        let mut tokens = event.tokens.chunks_exact(hasher.block_size() * 4 * parts);
        let mut puts = Vec::with_capacity(event.hashes.len());
        for (index, &name) in event.hashes.iter().enumerate() {
            let key = follow(&mut keys, index);
            let (start, tokens) = (hashes.len(), tokens.next());
            if let Some(block) = self.known(name) {
                (parent, chain) = (Some(block), Some(hasher.after(block)));
                puts.push(Put { name, block, new: start..start, parent });
            } else if let (Some(tokens), Some(chain)) = (tokens, &mut chain) {
                hashes.extend(
                    tokens.chunks_exact(hasher.block_size() * 4).map(|part| chain.push_with(part, key)),
                );
                let block = hashes[hashes.len() - 1];
                puts.push(Put { name, block, new: start..hashes.len(), parent });
                parent = Some(block);
            } else {
                chain = None;
            }
        }
        puts
    }

    fn put_away(&mut self, puts: &[Put], hashes: &[BlockHash], now: Time) {
        let (worker, parts) = (self.worker, self.parts());
        let held = &mut self.tiers[Tier::Lower as usize];
        let mut router = self.router.lock_last();
        for put in puts {
            let known = router.is_confirmed(worker, Tier::Lower, put.block);
            let stored = if put.new.is_empty() {
                router.keep_lower(worker, put.block, parts, now)
            } else {
                router.confirm(worker, Tier::Lower, put.parent, &hashes[put.new.clone()], now)
            };
            if stored.is_err() {
                self.stats.orphan_blocks += 1;
                continue;
            }
            self.stats.stored_blocks += 1;
            // Each medium reports what it has: a block in two of them is there until both have dropped it.
            if let Some(gone) = held.add(put.name, put.block, known) {
                router.evict(worker, Tier::Lower, gone, parts);
            }
        }
        MutexGuard::unlock_fair(router);
    }

    /// The block that the worker's engine calls `name`, wherever it lies.
    fn known(&self, name: EngineHash) -> Option<BlockHash> {
        self.tiers.iter().find_map(|held| held.find(name))
    }
}
