//! The KV blocks: which are used, which are cached, and which goes next.

use hashbrown::HashMap;

/// A block's place in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BlockId(u32);

/// The null block's place. It is never used, so the free list is closed through it.
const NULL: u32 = 0;

#[derive(Clone, Copy, Debug)]
struct Block {
    prev: u32,
    next: u32,
    /// Requests that use it; a block that none uses is in the free list.
    refs: u32,
    hash: Option<u64>,
}

/// The KV blocks of one engine, with vLLM's order of eviction.
///
/// Free blocks form a list: the next to be given out is on the left. A block that is freed with its hash
/// goes to the right and keeps its hash until it is given out, so it can be hit meanwhile. One without a
/// hash goes to the left: nothing is lost by reusing it (vLLM 0.32).
#[derive(Debug)]
pub(super) struct BlockPool {
    blocks: Vec<Block>,
    free: u32,
    /// For each hash the block that a hit uses.
    cached: HashMap<u64, BlockId>,
    /// Further blocks of the same hash, oldest first. Rare: two requests filled equal blocks.
    duplicates: HashMap<u64, Vec<BlockId>>,
}

impl BlockPool {
    /// A pool of `num_blocks` blocks, the null block included.
    pub(super) fn new(num_blocks: u32) -> BlockPool {
        let last = num_blocks - 1;
        let blocks = (0..num_blocks)
            .map(|id| Block {
                prev: if id == NULL { last } else { id - 1 },
                next: if id == last { NULL } else { id + 1 },
                refs: 0,
                hash: None,
            })
            .collect();
        BlockPool { blocks, free: last, cached: HashMap::new(), duplicates: HashMap::new() }
    }

    /// Blocks that no request uses, cached ones included.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// Blocks that requests can use.
    pub(super) fn usable(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    /// The block that a hit on `hash` uses.
    pub(super) fn lookup(&self, hash: u64) -> Option<BlockId> {
        self.cached.get(&hash).copied()
    }

    /// Whether no request uses the block.
    pub(super) fn is_free(&self, id: BlockId) -> bool {
        self.blocks[id.0 as usize].refs == 0
    }

    /// One more request uses the block.
    pub(super) fn hit(&mut self, id: BlockId) {
        if self.is_free(id) {
            self.unlink(id.0);
        }
        self.blocks[id.0 as usize].refs += 1;
    }

    /// The leftmost free block, for one request; what was cached in it is reported to `evicted`.
    pub(super) fn allocate(&mut self, mut evicted: impl FnMut(u64)) -> Option<BlockId> {
        let id = self.blocks[NULL as usize].next;
        if id == NULL {
            return None;
        }
        self.unlink(id);
        let block = &mut self.blocks[id as usize];
        block.refs = 1;
        if let Some(hash) = block.hash.take() {
            self.forget(hash, BlockId(id));
            evicted(hash);
        }
        Some(BlockId(id))
    }

    /// The block is full: requests with this prefix can hit it from here on.
    pub(super) fn store(&mut self, id: BlockId, hash: u64) {
        self.blocks[id.0 as usize].hash = Some(hash);
        if *self.cached.entry(hash).or_insert(id) != id {
            self.duplicates.entry(hash).or_default().push(id);
        }
    }

    /// One request less uses each of a sequence's blocks; the tail will be evicted before the head.
    pub(super) fn release(&mut self, sequence: &[BlockId]) {
        for &id in sequence.iter().rev() {
            let block = &mut self.blocks[id.0 as usize];
            block.refs -= 1;
            if block.refs == 0 {
                let left = if block.hash.is_some() { self.blocks[NULL as usize].prev } else { NULL };
                self.link_after(left, id.0);
            }
        }
    }

    /// Forgets every hash, unless a request uses a block; whether it did.
    pub(super) fn clear(&mut self) -> bool {
        if self.free != self.usable() {
            return false;
        }
        self.cached.clear();
        self.duplicates.clear();
        self.blocks.iter_mut().for_each(|block| block.hash = None);
        true
    }

    fn forget(&mut self, hash: u64, id: BlockId) {
        if let Some(others) = self.duplicates.get_mut(&hash) {
            if self.cached.get(&hash) == Some(&id) {
                self.cached.insert(hash, others.remove(0));
            } else {
                others.retain(|&other| other != id);
            }
            if others.is_empty() {
                self.duplicates.remove(&hash);
            }
        } else {
            self.cached.remove(&hash);
        }
    }

    fn unlink(&mut self, id: u32) {
        let Block { prev, next, .. } = self.blocks[id as usize];
        self.blocks[prev as usize].next = next;
        self.blocks[next as usize].prev = prev;
        self.free -= 1;
    }

    fn link_after(&mut self, left: u32, id: u32) {
        let right = self.blocks[left as usize].next;
        self.blocks[id as usize].prev = left;
        self.blocks[id as usize].next = right;
        self.blocks[left as usize].next = id;
        self.blocks[right as usize].prev = id;
        self.free += 1;
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
