//! The pool against a slow, obvious one.

use proptest::prelude::*;

use super::*;

/// The same rules over plain vectors.
struct Reference {
    /// Free blocks, the next to be given out first.
    free: Vec<BlockId>,
    refs: Vec<u32>,
    hashes: Vec<Option<u64>>,
    /// Cached blocks, oldest first.
    stored: Vec<(u64, BlockId)>,
}

impl Reference {
    fn new(num_blocks: u32) -> Reference {
        let all = num_blocks as usize;
        Reference {
            free: (1..num_blocks).map(BlockId).collect(),
            refs: vec![0; all],
            hashes: vec![None; all],
            stored: Vec::new(),
        }
    }

    fn lookup(&self, hash: u64) -> Option<BlockId> {
        self.stored.iter().find(|stored| stored.0 == hash).map(|stored| stored.1)
    }

    fn hit(&mut self, id: BlockId) {
        self.free.retain(|&free| free != id);
        self.refs[id.0 as usize] += 1;
    }

    fn allocate(&mut self, mut evicted: impl FnMut(u64)) -> Option<BlockId> {
        if self.free.is_empty() {
            return None;
        }
        let id = self.free.remove(0);
        self.refs[id.0 as usize] = 1;
        if let Some(hash) = self.hashes[id.0 as usize].take() {
            self.stored.retain(|stored| stored.1 != id);
            evicted(hash);
        }
        Some(id)
    }

    fn store(&mut self, id: BlockId, hash: u64) {
        self.hashes[id.0 as usize] = Some(hash);
        self.stored.push((hash, id));
    }

    fn release(&mut self, sequence: &[BlockId]) {
        for &id in sequence.iter().rev() {
            self.refs[id.0 as usize] -= 1;
            match (self.refs[id.0 as usize], self.hashes[id.0 as usize]) {
                (0, Some(_)) => self.free.push(id),
                (0, None) => self.free.insert(0, id),
                _ => {}
            }
        }
    }

    fn clear(&mut self) -> bool {
        let idle = self.refs.iter().all(|&refs| refs == 0);
        if idle {
            self.stored.clear();
            self.hashes.fill(None);
        }
        idle
    }
}

impl BlockPool {
    fn free_list(&self) -> Vec<BlockId> {
        let next = |&id: &u32| Some(self.blocks[id as usize].next);
        std::iter::successors(Some(self.blocks[0].next), next)
            .take_while(|&id| id != NULL)
            .map(BlockId)
            .collect()
    }

    /// Walks the list both ways, and counts every block as free or used.
    pub(crate) fn assert_consistent(&self, sequences: &[&[BlockId]]) {
        let list = self.free_list();
        assert_eq!(list.len(), self.free as usize);
        let prev = |&id: &u32| Some(self.blocks[id as usize].prev);
        let mut back: Vec<_> = std::iter::successors(Some(self.blocks[0].prev), prev)
            .take_while(|&id| id != NULL)
            .map(BlockId)
            .collect();
        back.reverse();
        assert_eq!(list, back);
        let mut refs = vec![0; self.blocks.len()];
        sequences.iter().copied().flatten().for_each(|id| refs[id.0 as usize] += 1);
        assert_eq!(refs[NULL as usize], 0, "the null block is used");
        for (id, block) in self.blocks.iter().enumerate().skip(1) {
            assert_eq!(block.refs, refs[id]);
            assert_eq!(
                list.contains(&BlockId(id as u32)),
                block.refs == 0,
                "free and used at once, or neither"
            );
        }
        let used = self.blocks.iter().filter(|block| block.refs > 0).count();
        assert_eq!(self.free as usize + used, self.usable() as usize);
        let hashed = self.blocks.iter().filter(|block| block.hash.is_some()).count();
        let known = self.cached.len() + self.duplicates.values().map(Vec::len).sum::<usize>();
        assert_eq!(hashed, known);
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// Starts a sequence with the blocks of these hashes, as far as they are cached, and fills `new` more.
    Start {
        hashes: Vec<u64>,
        new: usize,
    },
    /// Ends one of the sequences.
    Finish(usize),
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    let start = (prop::collection::vec(0_u64..12, 0..4), 0_usize..5)
        .prop_map(|(hashes, new)| Op::Start { hashes, new });
    prop_oneof![
        4 => start,
        3 => any::<usize>().prop_map(Op::Finish),
        1 => Just(Op::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn equals_the_reference(ops in prop::collection::vec(op(), 1..80), num_blocks in 2_u32..14) {
        let (mut pool, mut reference) = (BlockPool::new(num_blocks), Reference::new(num_blocks));
        let mut sequences: Vec<Vec<BlockId>> = Vec::new();
        for op in ops {
            match op {
                Op::Start { hashes, new } => {
                    let mut sequence = Vec::new();
                    for &hash in &hashes {
                        prop_assert_eq!(pool.lookup(hash), reference.lookup(hash));
                        let Some(id) = pool.lookup(hash) else { break };
                        pool.hit(id);
                        reference.hit(id);
                        sequence.push(id);
                    }
                    for fresh in 0..new {
                        let (mut gone, mut expected) = (None, None);
                        let id = pool.allocate(|hash| gone = Some(hash));
                        prop_assert_eq!(id, reference.allocate(|hash| expected = Some(hash)));
                        prop_assert_eq!(gone, expected);
                        let Some(id) = id else { break };
                        // The last one stays partial, and equal hashes come up now and then.
                        if fresh + 1 < new {
                            let hash = hashes.first().copied().unwrap_or(20) + fresh as u64;
                            pool.store(id, hash);
                            reference.store(id, hash);
                        }
                        sequence.push(id);
                    }
                    sequences.push(sequence);
                }
                Op::Finish(at) if !sequences.is_empty() => {
                    let sequence = sequences.remove(at % sequences.len());
                    pool.release(&sequence);
                    reference.release(&sequence);
                }
                Op::Finish(_) => {}
                Op::Clear => prop_assert_eq!(pool.clear(), reference.clear()),
            }
            prop_assert_eq!(pool.free_list(), reference.free.clone());
            (0..40).for_each(|hash| assert_eq!(pool.lookup(hash), reference.lookup(hash)));
            let borrowed: Vec<_> = sequences.iter().map(Vec::as_slice).collect();
            pool.assert_consistent(&borrowed);
        }
    }
}
