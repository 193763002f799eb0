//! From a block's hash to its place: which node, and where in its run.
//!
//! Eight bytes a slot: the hash itself is in the run, the slot has 16 bits of it. Many small open-addressed
//! shards with robin-hood order instead of one big table: a shard grows by a quarter at a time and without
//! looking at the runs, so no insertion pays for moving a million entries, memory never doubles, and an
//! index that shrinks gives memory back.

use crate::block::BlockHash;

const EMPTY: u64 = u64::MAX;

/// Entries in one shard of a full index. More would make equal 16-bit tags, and so reads of runs, frequent.
const SHARD: usize = 1024;

/// Bytes of budget that a block takes at least.
const BLOCK_BYTES: usize = 20;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) node: u32,
    pub(super) offset: u16,
}

#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[Shard]>,
    shard_bits: u32,
    slots: usize,
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct Shard {
    /// `node << 32 | offset << 16 | tag`, or [`EMPTY`]; ordered by tag within a cluster.
    slots: Box<[u64]>,
    used: usize,
}

impl Table {
    /// A table for an index of `max_bytes`.
    pub(super) fn new(max_bytes: usize) -> Table {
        let shards = (max_bytes / BLOCK_BYTES / SHARD).max(1).next_power_of_two().min(1 << 24);
        let shards = vec![Shard::default(); shards].into_boxed_slice();
        Table { shard_bits: shards.len().trailing_zeros(), shards, slots: 0, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.shards.len() * size_of::<Shard>() + self.slots * size_of::<u64>()
    }

    /// [`Table::bytes`] from what is there.
    pub(super) fn recount(&self) -> usize {
        size_of_val(&*self.shards) + self.shards.iter().map(|shard| size_of_val(&*shard.slots)).sum::<usize>()
    }

    /// Compares the counts with what is there.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut len = 0;
        for (at, shard) in self.shards.iter().enumerate() {
            let used = shard.slots.iter().filter(|&&slot| slot != EMPTY).count();
            if used != shard.used {
                return Err(format!("shard {at} has {used} entries, {} counted", shard.used));
            }
            len += used;
        }
        if len == self.len {
            Ok(())
        } else {
            Err(format!("{len} entries in the table, {} counted", self.len))
        }
    }

    /// The place of `hash` for which `is` holds. `is` compares the whole hash, the table only a part.
    #[inline]
    pub(super) fn find(&self, hash: BlockHash, is: impl Fn(Place) -> bool) -> Option<Place> {
        let (shard, tag) = self.split(hash);
        let found = self.shards[shard].probe(tag, |slot| is(place_of(slot)))?;
        Some(place_of(self.shards[shard].slots[found]))
    }

    /// Bytes that inserting `hash` allocates.
    pub(super) fn growth(&self, hash: BlockHash) -> usize {
        let shard = &self.shards[self.split(hash).0];
        if shard.full() { (roomy(shard.used + 1) - shard.slots.len()) * size_of::<u64>() } else { 0 }
    }

    /// Adds `hash`, which must not be there.
    pub(super) fn insert(&mut self, hash: BlockHash, place: Place) {
        let (shard, tag) = self.split(hash);
        let shard = &mut self.shards[shard];
        if shard.full() {
            self.slots += shard.resize(roomy(shard.used + 1));
        }
        shard.place(slot_of(place, tag));
        shard.used += 1;
        self.len += 1;
    }

    /// Moves `hash` from one place to another.
    pub(super) fn replace(&mut self, hash: BlockHash, old: Place, new: Place) {
        let (shard, tag) = self.split(hash);
        let (shard, old) = (&mut self.shards[shard], slot_of(old, tag));
        if let Some(found) = shard.probe(tag, |slot| slot == old) {
            shard.slots[found] = slot_of(new, tag);
        }
    }

    /// Removes `hash` from its place.
    pub(super) fn remove(&mut self, hash: BlockHash, place: Place) {
        let (shard, tag) = self.split(hash);
        let (shard, old) = (&mut self.shards[shard], slot_of(place, tag));
        let Some(found) = shard.probe(tag, |slot| slot == old) else { return };
        shard.take(found);
        shard.used -= 1;
        self.len -= 1;
        if shard.used * 5 < shard.slots.len() * 2 {
            let before = shard.slots.len();
            let wanted = if shard.used == 0 { 0 } else { roomy(shard.used) };
            if wanted < before {
                shard.resize(wanted);
                self.slots -= before - wanted;
            }
        }
    }

    /// The shard and the tag of `hash`: neighbouring bits, well mixed by the product.
    #[inline]
    fn split(&self, hash: BlockHash) -> (usize, u16) {
        let mixed = hash.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (48 - self.shard_bits);
        ((mixed >> 16) as usize, mixed as u16)
    }
}

impl Shard {
    /// No room without growing: four fifths are used.
    fn full(&self) -> bool {
        (self.used + 1) * 5 > self.slots.len() * 4
    }

    /// The slot of this tag for which `is` holds.
    #[inline]
    fn probe(&self, tag: u16, is: impl Fn(u64) -> bool) -> Option<usize> {
        let slots = &self.slots;
        if slots.is_empty() {
            return None;
        }
        let mut at = home(tag, slots.len());
        for distance in 0.. {
            let slot = slots[at];
            if slot as u16 == tag && slot != EMPTY && is(slot) {
                return Some(at);
            }
            if slot == EMPTY || self.distance(at) < distance {
                return None;
            }
            at = self.next(at);
        }
        None
    }

    /// Puts `slot` where robin-hood order wants it; there is room.
    fn place(&mut self, mut slot: u64) {
        let (mut at, mut distance) = (home(slot as u16, self.slots.len()), 0);
        while self.slots[at] != EMPTY {
            let there = self.distance(at);
            if there < distance {
                std::mem::swap(&mut slot, &mut self.slots[at]);
                distance = there;
            }
            at = self.next(at);
            distance += 1;
        }
        self.slots[at] = slot;
    }

    /// Empties the slot at `at`, and moves what follows one back.
    fn take(&mut self, mut at: usize) {
        loop {
            let next = self.next(at);
            if self.slots[next] == EMPTY || self.distance(next) == 0 {
                self.slots[at] = EMPTY;
                return;
            }
            self.slots[at] = self.slots[next];
            at = next;
        }
    }

    /// Rebuilds with `len` slots; gives how many more there are.
    fn resize(&mut self, len: usize) -> usize {
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; len].into_boxed_slice());
        for &slot in old.iter().filter(|&&slot| slot != EMPTY) {
            self.place(slot);
        }
        len.saturating_sub(old.len())
    }

    /// How far the slot at `at` is from its home.
    #[inline]
    fn distance(&self, at: usize) -> usize {
        let home = home(self.slots[at] as u16, self.slots.len());
        if at >= home { at - home } else { at + self.slots.len() - home }
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }
}

/// The slot where a tag is looked for first, of `len`.
#[inline]
fn home(tag: u16, len: usize) -> usize {
    (usize::from(tag) * len) >> 16
}

/// Slots for `used` entries with room for a quarter more.
fn roomy(used: usize) -> usize {
    (used * 25).div_ceil(16).max(8)
}

fn slot_of(place: Place, tag: u16) -> u64 {
    u64::from(place.node) << 32 | u64::from(place.offset) << 16 | u64::from(tag)
}

fn place_of(slot: u64) -> Place {
    Place { node: (slot >> 32) as u32, offset: (slot >> 16) as u16 }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equals_a_hash_map(operations in prop::collection::vec((0_u8..3, 0_u64..300), 0..2000), spread in prop::bool::ANY) {
            let mut table = Table::new(1 << 16);
            let mut model: HashMap<u64, Place> = HashMap::new();
            let scale = if spread { 0x0123_4567_89AB_CDEF } else { 1 };
            for (step, (operation, key)) in operations.into_iter().enumerate() {
                let hash = BlockHash(key.wrapping_mul(scale));
                let place = Place { node: step as u32, offset: key as u16 };
                match (operation, model.get(&key).copied()) {
                    (0, Some(old)) => {
                        table.remove(hash, old);
                        model.remove(&key);
                    }
                    (1, Some(old)) => {
                        table.replace(hash, old, place);
                        model.insert(key, place);
                    }
                    (_, None) => {
                        let (growth, before) = (table.growth(hash), table.bytes());
                        table.insert(hash, place);
                        prop_assert_eq!(table.bytes() - before, growth);
                        model.insert(key, place);
                    }
                    _ => {}
                }
                prop_assert_eq!(table.len(), model.len());
                prop_assert_eq!(table.slots, table.shards.iter().map(|shard| shard.slots.len()).sum::<usize>());
            }
            for key in 0..300_u64 {
                // Offsets are the keys here, so that an equal tag of another key is told apart.
                let found = table.find(BlockHash(key.wrapping_mul(scale)), |place| place.offset == key as u16);
                prop_assert_eq!(found, model.get(&key).copied());
            }
        }
    }

    #[test]
    fn an_emptied_table_gives_its_memory_back() {
        let mut table = Table::new(1 << 20);
        let empty = table.bytes();
        for key in 0..50_000 {
            table.insert(BlockHash(key), Place { node: key as u32, offset: 0 });
        }
        assert!(table.bytes() - empty <= 50_000 * 14, "{} bytes", table.bytes() - empty);
        for key in 0..50_000 {
            table.remove(BlockHash(key), Place { node: key as u32, offset: 0 });
        }
        assert_eq!(table.bytes(), empty);
    }
}
