//! From an engine's name of a block to ours.
//!
//! Sixteen bytes a slot and no more than an eighth of the slots empty on purpose: a router that mirrors ten
//! million blocks spends most of its memory here and in the index. Many small shards, so that no event pays for
//! moving a million entries. An engine fills its cache and keeps it full: a shard begins with the room that it will
//! need, since one that grows bit by bit leaves holes that nothing else fits. More than that is taken by sixths.

use crate::block::BlockHash;
use crate::event::EngineHash;

/// Entries in a shard of a full table.
const SHARD: u32 = 4096;
const MAX_SHARDS: usize = 1 << 12;

/// Engine hashes to block hashes. `BlockHash(0)`, which no block has but by chance, stands for no entry.
#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[Shard]>,
    seed: u64,
    /// Slots of a shard at first.
    first: usize,
    len: usize,
    slots: usize,
}

#[derive(Clone, Debug, Default)]
struct Shard {
    slots: Box<[(EngineHash, BlockHash)]>,
    used: usize,
}

impl Table {
    /// A table for about `blocks` entries; it takes more, too. `seed` keeps engines from choosing collisions.
    pub(super) fn new(blocks: u32, seed: u64) -> Table {
        let shards = (blocks.div_ceil(SHARD) as usize).clamp(1, MAX_SHARDS).next_power_of_two();
        // Some shards get more than their share: two deviations more are enough for all but one in fifty.
        let share = blocks as usize / shards;
        let first = (share + 2 * share.isqrt()) * 8 / 7 + 8;
        Table { shards: vec![Shard::default(); shards].into_boxed_slice(), seed, first, len: 0, slots: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.shards) + self.slots * size_of::<(EngineHash, BlockHash)>()
    }

    /// Every entry, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (EngineHash, BlockHash)> + '_ {
        let slots = self.shards.iter().flat_map(|shard| shard.slots.iter().copied());
        slots.filter(|(_, block)| *block != BlockHash(0))
    }

    pub(super) fn find(&self, key: EngineHash) -> Option<BlockHash> {
        let (shard, low) = self.place(key);
        self.shards[shard].find(key, low).map(|at| self.shards[shard].slots[at].1)
    }

    /// Reads what looking `keys` up will read, so that the processor waits for memory once and not each time.
    pub(super) fn warm(&self, keys: impl Iterator<Item = EngineHash>) {
        let slot = |key| {
            let (shard, low) = self.place(key);
            let shard = &self.shards[shard];
            shard.slots.get(shard.home(low)).map_or(0, |(known, _)| known.0)
        };
        std::hint::black_box(keys.map(slot).fold(0, u64::wrapping_add));
    }

    /// Sets the entry of `key`; gives the one it had.
    pub(super) fn insert(&mut self, key: EngineHash, value: BlockHash) -> Option<BlockHash> {
        if value == BlockHash(0) {
            return self.remove(key);
        }
        let (shard, low) = self.place(key);
        if let Some(at) = self.shards[shard].find(key, low) {
            return Some(std::mem::replace(&mut self.shards[shard].slots[at].1, value));
        }
        let before = self.shards[shard].slots.len();
        if !self.shards[shard].has_room() {
            self.grow(shard);
        }
        let shard = &mut self.shards[shard];
        shard.add(key, value, low);
        self.slots = self.slots + shard.slots.len() - before;
        self.len += 1;
        None
    }

    /// Drops the entry of `key`; gives it.
    pub(super) fn remove(&mut self, key: EngineHash) -> Option<BlockHash> {
        let (shard, low) = self.place(key);
        let at = self.shards[shard].find(key, low)?;
        let value = self.shards[shard].slots[at].1;
        self.close_gap(shard, at);
        self.shards[shard].used -= 1;
        self.len -= 1;
        Some(value)
    }

    /// Drops everything, and the memory.
    pub(super) fn clear(&mut self) {
        self.shards.fill(Shard::default());
        (self.len, self.slots) = (0, 0);
    }

    /// The shard of `key`, and 32 bits that say where in it.
    fn place(&self, key: EngineHash) -> (usize, u32) {
        let product = u128::from(key.0 ^ self.seed) * u128::from(0x9E37_79B9_7F4A_7C15_u64);
        let hash = (product >> 64) as u64 ^ product as u64;
        ((hash >> 32) as usize & (self.shards.len() - 1), hash as u32)
    }

    fn grow(&mut self, shard: usize) {
        let slots = self.shards[shard].slots.len();
        let more = if slots == 0 { self.first } else { slots + slots / 6 + 8 };
        let larger = vec![Default::default(); more].into_boxed_slice();
        let old = std::mem::replace(&mut self.shards[shard], Shard { slots: larger, used: 0 });
        for (key, value) in old.slots.into_iter().filter(|slot| slot.1 != BlockHash(0)) {
            let (_, low) = self.place(key);
            self.shards[shard].add(key, value, low);
        }
    }

    /// Empties the slot at `gap` and moves what was pushed past it back.
    fn close_gap(&mut self, shard: usize, mut gap: usize) {
        let slots = self.shards[shard].slots.len();
        let mut at = gap;
        loop {
            at = if at + 1 == slots { 0 } else { at + 1 };
            let (key, value) = self.shards[shard].slots[at];
            if value == BlockHash(0) || at == gap {
                break;
            }
            let home = self.shards[shard].home(self.place(key).1);
            // The entry stays where its home lies between the gap and itself, going round.
            let stays = if gap < at { gap < home && home <= at } else { gap < home || home <= at };
            if !stays {
                self.shards[shard].slots[gap] = (key, value);
                gap = at;
            }
        }
        self.shards[shard].slots[gap] = Default::default();
    }
}

impl Shard {
    fn has_room(&self) -> bool {
        self.used + 1 + self.slots.len() / 8 <= self.slots.len()
    }

    fn home(&self, low: u32) -> usize {
        ((u64::from(low) * self.slots.len() as u64) >> 32) as usize
    }

    fn find(&self, key: EngineHash, low: u32) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        let mut at = self.home(low);
        loop {
            match self.slots[at] {
                (_, BlockHash(0)) => return None,
                (known, _) if known == key => return Some(at),
                _ => at = if at + 1 == self.slots.len() { 0 } else { at + 1 },
            }
        }
    }

    /// Adds what is not there; there is room.
    fn add(&mut self, key: EngineHash, value: BlockHash, low: u32) {
        let mut at = self.home(low);
        while self.slots[at].1 != BlockHash(0) {
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        self.slots[at] = (key, value);
        self.used += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equals_a_map(steps in prop::collection::vec((0_u8..8, 0_u64..300, 1_u64..9), 0..2000), blocks in 0_u32..5000) {
            let (mut table, mut map) = (Table::new(blocks, 7), HashMap::new());
            for (step, key, value) in steps {
                let key = EngineHash(key << 40);
                match step {
                    0..=4 => prop_assert_eq!(table.insert(key, BlockHash(value)), map.insert(key, BlockHash(value))),
                    5 | 6 => prop_assert_eq!(table.remove(key), map.remove(&key)),
                    _ if key.0 == 0 => {
                        table.clear();
                        map.clear();
                    }
                    _ => prop_assert_eq!(table.find(key), map.get(&key).copied()),
                }
                prop_assert_eq!(table.len(), map.len());
            }
            prop_assert_eq!(table.iter().collect::<HashMap<_, _>>(), map.clone());
            for (key, value) in map {
                prop_assert_eq!(table.find(key), Some(value));
            }
            let slots: usize = table.shards.iter().map(|shard| shard.slots.len()).sum();
            prop_assert_eq!(table.slots, slots);
        }
    }

    #[test]
    fn a_large_table_takes_at_most_20_bytes_an_entry() {
        let mut table = Table::new(1_000_000, 1);
        for key in 0..1_000_000_u64 {
            table.insert(EngineHash(key.wrapping_mul(0x9E37_79B9_7F4A_7C15)), BlockHash(key + 1));
        }
        assert!(table.bytes() <= 20_000_000, "{}", table.bytes());
    }
}
