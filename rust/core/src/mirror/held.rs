//! Which blocks an engine holds in one tier, by its own names and by ours.

use std::collections::HashMap;

use super::table::Table;
use crate::block::BlockHash;
use crate::event::EngineHash;

/// What is held, with how often it is.
///
/// An engine may hold a block several times, and a removal takes one of them: vLLM computes the last block of a
/// prompt anew where all of it was cached. Names may differ for blocks that are the same to us: a name covers
/// more than token ids (the tokens that a draft model looks ahead at, say).
#[derive(Debug)]
pub(super) struct Held {
    table: Table,
    /// Copies beyond the first, by the engine's name.
    copies: HashMap<EngineHash, u32>,
    /// All of these.
    further: u32,
    /// Names beyond the first, by block.
    names: HashMap<BlockHash, u32>,
}

impl Held {
    /// Bytes that a name takes, its share of what is empty included.
    pub(super) const NAME_BYTES: usize = 20;

    pub(super) fn new(blocks: u32, seed: u64) -> Held {
        Held { table: Table::new(blocks, seed), copies: HashMap::new(), further: 0, names: HashMap::new() }
    }

    /// Blocks, copies aside.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Names, and counts of names and blocks that are held several times, which take about as much.
    pub(super) fn names(&self) -> usize {
        self.table.len() + self.copies.len() + self.names.len()
    }

    /// Copies beyond the first, of all blocks: they take room, too.
    pub(super) fn further(&self) -> u32 {
        self.further
    }

    pub(super) fn bytes(&self) -> usize {
        let entry = size_of::<(u64, u32)>() + 1;
        self.table.bytes() + (self.copies.capacity() + self.names.capacity()) * entry
    }

    /// Every name with its block, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (EngineHash, BlockHash)> + '_ {
        self.table.iter()
    }

    pub(super) fn find(&self, name: EngineHash) -> Option<BlockHash> {
        self.table.find(name)
    }

    /// Makes the next looks at `names` quick.
    pub(super) fn warm(&self, names: impl Iterator<Item = EngineHash>) {
        self.table.warm(names);
    }

    /// One more copy of `name`, which is `block`. `known` says that the block is held under another name.
    ///
    /// Gives the block that the name stood for before, where that was another one and nothing holds it now.
    pub(super) fn add(&mut self, name: EngineHash, block: BlockHash, known: bool) -> Option<BlockHash> {
        match self.table.find(name) {
            Some(same) if same == block => {
                *self.copies.entry(name).or_default() += 1;
                self.further += 1;
                None
            }
            Some(_) => {
                self.further -= self.copies.remove(&name).unwrap_or(0);
                let gone = self.remove(name);
                self.insert(name, block, known);
                gone
            }
            None => {
                self.insert(name, block, known);
                None
            }
        }
    }

    /// One copy less of `name`. Gives its block, where nothing holds it any more.
    pub(super) fn remove(&mut self, name: EngineHash) -> Option<BlockHash> {
        if take_one(&mut self.copies, &name) {
            self.further -= 1;
            return None;
        }
        let block = self.table.remove(name)?;
        if take_one(&mut self.names, &block) { None } else { Some(block) }
    }

    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.copies = HashMap::new();
        self.further = 0;
        self.names = HashMap::new();
    }

    fn insert(&mut self, name: EngineHash, block: BlockHash, known: bool) {
        self.table.insert(name, block);
        if known {
            *self.names.entry(block).or_default() += 1;
        }
    }
}

/// Takes one of a count that is kept beyond the first; false where there is none.
fn take_one<K: Eq + std::hash::Hash>(counts: &mut HashMap<K, u32>, key: &K) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: EngineHash = EngineHash(1);
    const OTHER: EngineHash = EngineHash(2);
    const BLOCK: BlockHash = BlockHash(10);

    #[test]
    fn a_block_is_held_until_its_last_copy_goes() {
        let mut held = Held::new(8, 0);
        for _ in 0..3 {
            assert_eq!(held.add(NAME, BLOCK, false), None);
        }
        assert_eq!((held.len(), held.further()), (1, 2));
        assert_eq!([held.remove(NAME), held.remove(NAME)], [None, None]);
        assert_eq!((held.len(), held.further()), (1, 0));
        assert_eq!((held.find(NAME), held.remove(NAME), held.remove(NAME)), (Some(BLOCK), Some(BLOCK), None));
    }

    #[test]
    fn a_block_is_held_until_its_last_name_goes() {
        let mut held = Held::new(8, 0);
        held.add(NAME, BLOCK, false);
        held.add(OTHER, BLOCK, true);
        assert_eq!((held.remove(NAME), held.find(NAME)), (None, None));
        assert_eq!((held.remove(OTHER), held.len()), (Some(BLOCK), 0));
    }

    #[test]
    fn a_name_that_changes_its_block_gives_the_old_one_up() {
        let mut held = Held::new(8, 0);
        held.add(NAME, BLOCK, false);
        held.add(NAME, BLOCK, false);
        assert_eq!(held.further(), 1);
        assert_eq!(held.add(NAME, BlockHash(11), false), Some(BLOCK));
        assert_eq!(held.further(), 0);
        assert_eq!(held.remove(NAME), Some(BlockHash(11)));
    }
}
