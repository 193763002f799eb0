//! Nodes by number, in chunks that come and go one by one.
//!
//! One growing vector would double, and copy every node, at the worst moment; a chunk is a few kilobytes.

use super::node::{NIL, Node};
use super::table::Place;
use crate::block::BlockHash;

/// Small under test, so that small trees have several chunks.
const CHUNK_BITS: u32 = if cfg!(test) { 2 } else { 5 };
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BYTES: usize = CHUNK * size_of::<Node>();

#[derive(Debug)]
pub(super) struct Slab {
    chunks: Vec<Chunk>,
    /// The first of the chunks that have room, linked by `next_open`.
    open: u32,
    live: usize,
    allocated: usize,
}

#[derive(Debug)]
struct Chunk {
    /// Empty while no node lives here.
    nodes: Box<[Node]>,
    /// The first free place, linked by `Node::older`.
    free: u32,
    live: u32,
    next_open: u32,
}

impl Slab {
    pub(super) fn new() -> Slab {
        Slab { chunks: Vec::new(), open: NIL, live: 0, allocated: 0 }
    }

    /// Nodes that live.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// Numbers in use are below this.
    pub(super) fn end(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>() + self.allocated * CHUNK_BYTES
    }

    /// [`Slab::bytes`] from what is there.
    pub(super) fn recount(&self) -> usize {
        let nodes: usize = self.chunks.iter().map(|chunk| size_of_val(&*chunk.nodes)).sum();
        self.chunks.capacity() * size_of::<Chunk>() + nodes
    }

    /// Bytes that the next [`Slab::insert`] allocates.
    pub(super) fn growth(&self) -> usize {
        match self.chunks.get(self.open as usize) {
            Some(chunk) if chunk.nodes.is_empty() => CHUNK_BYTES,
            Some(_) => 0,
            None => CHUNK_BYTES + self.directory_growth() * size_of::<Chunk>(),
        }
    }

    fn directory_growth(&self) -> usize {
        if self.chunks.len() < self.chunks.capacity() { 0 } else { (self.chunks.len() / 4).max(4) }
    }

    /// Whether a node lives at `id`.
    pub(super) fn contains(&self, id: u32) -> bool {
        let chunk = self.chunks.get((id >> CHUNK_BITS) as usize);
        chunk.and_then(|chunk| chunk.nodes.get(id as usize % CHUNK)).is_some_and(|node| !node.run.is_empty())
    }

    /// Whether `hash` is the block at `place`.
    #[inline]
    pub(super) fn is(&self, place: Place, hash: BlockHash) -> bool {
        let node = &self[place.node];
        node.run.get(node.index(place.offset)) == Some(&hash)
    }

    /// A place for a node, which the caller fills.
    pub(super) fn insert(&mut self) -> u32 {
        if self.open == NIL {
            self.chunks.reserve_exact(self.directory_growth());
            self.open = self.chunks.len() as u32;
            self.chunks.push(Chunk { nodes: Box::default(), free: NIL, live: 0, next_open: NIL });
        }
        let number = self.open;
        let chunk = &mut self.chunks[number as usize];
        if chunk.nodes.is_empty() {
            let place =
                |i: u32| Node { older: if i + 1 < CHUNK as u32 { i + 1 } else { NIL }, ..Node::default() };
            chunk.nodes = (0..CHUNK as u32).map(place).collect();
            chunk.free = 0;
            self.allocated += 1;
        }
        let place = chunk.free;
        chunk.free = chunk.nodes[place as usize].older;
        chunk.live += 1;
        self.live += 1;
        if chunk.free == NIL {
            self.open = chunk.next_open;
        }
        (number << CHUNK_BITS) | place
    }

    /// Takes the node out and frees its number.
    pub(super) fn remove(&mut self, id: u32) -> Node {
        let chunk = &mut self.chunks[(id >> CHUNK_BITS) as usize];
        let place = id as usize % CHUNK;
        let node = std::mem::take(&mut chunk.nodes[place]);
        if chunk.free == NIL {
            chunk.next_open = self.open;
            self.open = id >> CHUNK_BITS;
        }
        chunk.nodes[place].older = chunk.free;
        chunk.free = place as u32;
        chunk.live -= 1;
        self.live -= 1;
        if chunk.live == 0 {
            chunk.nodes = Box::default();
            self.allocated -= 1;
        }
        node
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Node;

    #[inline]
    fn index(&self, id: u32) -> &Node {
        &self.chunks[(id >> CHUNK_BITS) as usize].nodes[id as usize % CHUNK]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Node {
        &mut self.chunks[(id >> CHUNK_BITS) as usize].nodes[id as usize % CHUNK]
    }
}
