//! From a block's hash to its place: which node, and where in its run.
//!
//! Eight bytes a slot: the hash itself is in the run, the slot has 16 bits of it. Many small shards instead
//! of one big table: a shard grows by a quarter at a time, in one pass and without looking at the runs, so
//! no insertion pays for moving a million entries, memory never doubles, and an index that shrinks gives
//! memory back.
//!
//! A shard is an array with gaps, sorted by tag: an entry is at its home, which its tag alone decides, or
//! as soon after it as there is room. A search ends at the first gap or higher tag, and a growing shard is
//! copied from left to right.

use crate::block::BlockHash;

const EMPTY: u64 = u64::MAX;

/// Entries in one shard of a full index. More would make equal 16-bit tags, and so reads of runs, frequent.
const SHARD: usize = 4096;

/// Shards of the largest table, which takes 1.5 MiB empty. Beyond it shards have more entries.
const MAX_SHARDS: usize = 1 << 16;

/// Bytes of budget that a block takes at least.
const BLOCK_BYTES: usize = 20;

/// Blocks that [`Table::warm`] is worth calling for at once.
pub(super) const WARM: usize = 32;

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
    /// `node << 32 | offset << 16 | tag`, or [`EMPTY`]; the last one always is. Homes come first, then room
    /// for entries that are beyond the last home.
    slots: Box<[u64]>,
    homes: u32,
    used: u32,
}

impl Table {
    /// A table for an index of `max_bytes`.
    pub(super) fn new(max_bytes: usize) -> Table {
        let shards = (max_bytes / BLOCK_BYTES / SHARD).clamp(1, MAX_SHARDS).next_power_of_two();
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

    /// Compares the counts and the order with what is there.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut len = 0;
        for (at, shard) in self.shards.iter().enumerate() {
            let used = shard.check().map_err(|error| format!("shard {at}: {error}"))?;
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
        let shard = &self.shards[shard];
        shard.search(tag, |slot| is(place_of(slot))).ok().map(|at| place_of(shard.slots[at]))
    }

    /// Bytes that inserting `hash` allocates.
    #[inline]
    pub(super) fn growth(&self, hash: BlockHash) -> usize {
        let shard = &self.shards[self.split(hash).0];
        if shard.has_room() { 0 } else { (shard.grown().1 - shard.slots.len()) * size_of::<u64>() }
    }

    /// Reads what adding or removing `hashes` will read, so that the processor waits for memory once and not each time.
    #[inline]
    pub(super) fn warm(&self, hashes: &[BlockHash]) {
        let slot = |&hash: &BlockHash| {
            let (shard, tag) = self.split(hash);
            let shard = &self.shards[shard];
            shard.slots.get(home(tag, shard.homes)).copied().unwrap_or(0)
        };
        std::hint::black_box(hashes.iter().map(slot).fold(0, u64::wrapping_add));
    }

    /// Adds `hash`, unless `is` holds for a place that it has; false then.
    #[inline]
    pub(super) fn insert(&mut self, hash: BlockHash, place: Place, is: impl Fn(Place) -> bool) -> bool {
        let (shard, tag) = self.split(hash);
        let shard = &mut self.shards[shard];
        if !shard.has_room() {
            let (homes, slots) = shard.grown();
            self.slots += slots - shard.slots.len();
            shard.resize(homes, slots);
        }
        let Err(at) = shard.search(tag, |slot| is(place_of(slot))) else { return false };
        shard.put(at, slot_of(place, tag));
        self.len += 1;
        true
    }

    /// Moves `hash` from one place to another.
    pub(super) fn replace(&mut self, hash: BlockHash, old: Place, new: Place) {
        let (shard, tag) = self.split(hash);
        let (shard, old) = (&mut self.shards[shard], slot_of(old, tag));
        if let Ok(at) = shard.search(tag, |slot| slot == old) {
            shard.slots[at] = slot_of(new, tag);
        }
    }

    /// Removes `hash` from its place.
    pub(super) fn remove(&mut self, hash: BlockHash, place: Place) {
        let (shard, tag) = self.split(hash);
        let (shard, old) = (&mut self.shards[shard], slot_of(place, tag));
        let Ok(at) = shard.search(tag, |slot| slot == old) else { return };
        shard.take(at);
        self.len -= 1;
        if shard.sparse() {
            let before = shard.slots.len();
            let (homes, slots) = shard.shrunk();
            if slots < before {
                shard.resize(homes, slots);
                self.slots -= before - slots;
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
    /// Whether one more entry fits: at most four fifths of the homes are used then, and the last slot stays
    /// empty wherever the entry goes.
    #[inline]
    fn has_room(&self) -> bool {
        match self.slots.len().checked_sub(2) {
            Some(last) => (self.used + 1) * 5 <= self.homes * 4 && self.slots[last] == EMPTY,
            None => false,
        }
    }

    /// Fewer than two fifths of the homes are used.
    fn sparse(&self) -> bool {
        self.used * 5 < self.homes * 2
    }

    /// The slot of this tag for which `is` holds, or else the place for one more of it.
    #[inline]
    fn search(&self, tag: u16, is: impl Fn(u64) -> bool) -> Result<usize, usize> {
        let mut at = home(tag, self.homes);
        while let Some(&slot) = self.slots.get(at) {
            // An empty slot has the highest tag: a search for that one has to look at the whole slot.
            if slot as u16 >= tag {
                if slot as u16 > tag || slot == EMPTY {
                    break;
                }
                if is(slot) {
                    return Ok(at);
                }
            }
            at += 1;
        }
        Err(at)
    }

    /// Puts a slot at `at`, and moves what is there up to the next gap.
    #[inline]
    fn put(&mut self, at: usize, slot: u64) {
        let mut moved = slot;
        for slot in &mut self.slots[at..] {
            std::mem::swap(slot, &mut moved);
            if moved == EMPTY {
                break;
            }
        }
        self.used += 1;
    }

    /// Empties the slot at `at`, and moves what is beyond its home back.
    #[inline]
    fn take(&mut self, mut at: usize) {
        while let Some(&next) = self.slots.get(at + 1)
            && next != EMPTY
            && home(next as u16, self.homes) <= at
        {
            self.slots[at] = next;
            at += 1;
        }
        self.slots[at] = EMPTY;
        self.used -= 1;
    }

    /// Homes and slots for one more entry: a quarter more homes, or more room beyond the last one.
    fn grown(&self) -> (u32, usize) {
        let full = (self.used + 1) * 5 > self.homes * 4;
        let homes = if full { roomy(self.used + 1) } else { self.homes };
        (homes, self.extent(homes).max(self.slots.len() + 1))
    }

    /// Homes and slots for the entries that are left.
    fn shrunk(&self) -> (u32, usize) {
        let homes = if self.used == 0 { 0 } else { roomy(self.used) };
        (homes, if self.used == 0 { 0 } else { self.extent(homes) })
    }

    /// Slots that the entries take with so many homes, and a few more.
    fn extent(&self, homes: u32) -> usize {
        let place = |next: usize, &slot: &u64| next.max(home(slot as u16, homes)) + 1;
        let end = self.slots.iter().filter(|&&slot| slot != EMPTY).fold(0, place);
        end.max(homes as usize) + 3 + homes as usize / 64
    }

    /// Rebuilds with so many homes and slots.
    fn resize(&mut self, homes: u32, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; slots].into_boxed_slice());
        self.homes = homes;
        let mut next = 0;
        for &slot in old.iter().filter(|&&slot| slot != EMPTY) {
            next = next.max(home(slot as u16, homes));
            self.slots[next] = slot;
            next += 1;
        }
    }

    /// The number of entries, where they are in order and as many as counted.
    fn check(&self) -> Result<usize, String> {
        let (mut used, mut last, mut gap) = (0, 0, true);
        for (at, &slot) in self.slots.iter().enumerate() {
            let tag = slot as u16;
            if slot != EMPTY {
                let home = home(tag, self.homes);
                if tag < last || at < home || (gap && at > home) {
                    return Err(format!("tag {tag} is at {at}, its home is {home}, after tag {last}"));
                }
                (used, last) = (used + 1, tag);
            }
            gap = slot == EMPTY;
        }
        if used == self.used as usize && gap {
            Ok(used)
        } else {
            Err(format!("{used} entries, {} counted", self.used))
        }
    }
}

/// The slot where a tag is looked for first.
#[inline]
fn home(tag: u16, homes: u32) -> usize {
    ((u64::from(tag) * u64::from(homes)) >> 16) as usize
}

/// Homes for `used` entries with room for a quarter more.
fn roomy(used: u32) -> u32 {
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
                        prop_assert!(table.insert(hash, place, |place| place.offset == key as u16));
                        prop_assert_eq!(table.bytes() - before, growth);
                        model.insert(key, place);
                    }
                    (_, Some(_)) => {
                        prop_assert!(!table.insert(hash, place, |place| place.offset == key as u16));
                    }
                }
                prop_assert_eq!(table.len(), model.len());
                prop_assert_eq!(table.bytes(), table.recount());
                prop_assert_eq!(table.check(), Ok(()));
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
            assert!(table.insert(BlockHash(key), Place { node: key as u32, offset: 0 }, |place| place.node
                == key as u32));
        }
        assert!(table.bytes() - empty <= 50_000 * 14, "{} bytes", table.bytes() - empty);
        for key in 0..50_000 {
            table.remove(BlockHash(key), Place { node: key as u32, offset: 0 });
        }
        assert_eq!(table.bytes(), empty);
    }
}
