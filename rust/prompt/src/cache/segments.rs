//! Token ids of pieces that were seen, and block hashes of prefixes that were seen.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache;
use quick_cache::{Equivalent, OptionsBuilder, Weighter};
use warmroute_core::block::{BlockHash, BlockHasher, Chain, Namespace};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What an entry takes beside its content.
pub(super) const ENTRY: usize = 160;

/// Bytes under a hash that is keyed for this process, so that nobody can choose texts that collide.
/// Equality is that of the bytes: a collision costs time and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) hash: u64,
    tag: u32,
    pub(super) bytes: Box<[u8]>,
}

/// A [`Key`] that is looked up.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'a> {
    hash: u64,
    tag: u32,
    bytes: &'a [u8],
}

/// Makes lookups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub(super) seed: u64,
}

impl Keys {
    pub(super) fn new() -> Keys {
        Keys { seed: RandomState::new().hash_one(0_u8) }
    }

    /// `tag` separates what is alike in bytes.
    pub(super) fn lookup<'a>(&self, tag: u32, bytes: &'a [u8]) -> Lookup<'a> {
        Lookup { hash: xxh3_64_with_seed(bytes, self.seed).wrapping_add(u64::from(tag)), tag, bytes }
    }
}

impl<'a> Lookup<'a> {
    /// One whose hash is only guessed: it finds the entry of these bytes, or nothing.
    pub(super) fn guessed(hash: u64, tag: u32, bytes: &'a [u8]) -> Lookup<'a> {
        Lookup { hash, tag, bytes }
    }

    pub(super) fn to_key(self) -> Key {
        Key { hash: self.hash, tag: self.tag, bytes: self.bytes.into() }
    }
}

/// The key that a text begins with, of which the hash is guessed.
pub(super) struct Beginning<'a> {
    pub(super) hash: u64,
    /// Tags that the key may have.
    pub(super) tags: Range<u32>,
    pub(super) text: &'a [u8],
}

impl Hash for Beginning<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Equivalent<Key> for Beginning<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.hash == key.hash && self.tags.contains(&key.tag) && self.text.starts_with(&key.bytes)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hash for Lookup<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Equivalent<Key> for Lookup<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.tag == key.tag && *self.bytes == *key.bytes
    }
}

/// The ids of one piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Never used again.
    id: u64,
    /// Little-endian `u32`, packed.
    pub(super) ids: Box<[u8]>,
}

impl Segment {
    pub(super) fn new(ids: &[u32]) -> Arc<Segment> {
        Segment::packed(ids.iter().flat_map(|id| id.to_le_bytes()).collect())
    }

    /// That of the pieces of `parts` in a row.
    pub(super) fn joined(parts: &[Arc<Segment>]) -> Arc<Segment> {
        let parts: Vec<&[u8]> = parts.iter().map(|part| &*part.ids).collect();
        Segment::packed(parts.concat().into())
    }

    fn packed(ids: Box<[u8]>) -> Arc<Segment> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Segment { id: NEXT.fetch_add(1, Ordering::Relaxed), ids })
    }
}

/// A cache of at most some bytes.
pub(super) type Bounded<K, V, W> = Cache<K, V, W, BuildHasherDefault<Hashed>>;

/// Takes keys that are hashes, or numbers that nobody outside chooses.
#[derive(Default)]
pub(super) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number ^ 0x9E37_79B9_7F4A_7C15) * 0xD1B5_4A32_D192_ED03_u128;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}

/// A cache of `bytes` for entries of about `each` bytes.
pub(super) fn bounded<K: Eq + Hash, V: Clone, W: Weighter<K, V> + Clone>(
    bytes: usize,
    each: usize,
    weighter: W,
) -> Bounded<K, V, W> {
    let options = OptionsBuilder::new()
        .estimated_items_capacity(bytes / each)
        .weight_capacity(bytes as u64)
        .shards(SHARDS)
        .build();
    match options {
        Ok(options) => Cache::with_options(options, weighter, Default::default(), Default::default()),
        // The builder only refuses when a required number is missing.
        Err(_) => Cache::with(bytes / each, bytes as u64, weighter, Default::default(), Default::default()),
    }
}

/// Parts of a cache with locks of their own. An entry heavier than a part is not kept.
const SHARDS: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct WeighSegment;

impl Weighter<Key, Arc<Segment>> for WeighSegment {
    fn weight(&self, key: &Key, segment: &Arc<Segment>) -> u64 {
        (key.bytes.len() + segment.ids.len() + ENTRY) as u64
    }
}

/// A prefix: the segments up to here, by what precedes the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Prefix {
    before: Before,
    segment: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Before {
    /// Nothing; the chain's start stands for the namespace and the hasher.
    Start { chain: Chain, block_size: usize },
    /// The node of this id.
    Node(u64),
}

/// A prefix whose blocks are hashed.
#[derive(Debug)]
struct Node {
    /// Never used again.
    id: u64,
    chain: Chain,
    /// Of the blocks that the last segment completes.
    hashes: Box<[BlockHash]>,
    /// Ids behind the last full block, packed.
    rest: Box<[u8]>,
}

#[derive(Clone, Debug)]
struct WeighNode;

impl Weighter<Prefix, Arc<Node>> for WeighNode {
    fn weight(&self, _: &Prefix, node: &Arc<Node>) -> u64 {
        (node.hashes.len() * size_of::<BlockHash>() + node.rest.len() + ENTRY) as u64
    }
}

/// Block hashes by prefix.
#[derive(Debug)]
pub(super) struct Chains {
    nodes: Bounded<Prefix, Arc<Node>, WeighNode>,
    next: AtomicU64,
}

impl Chains {
    pub(super) fn new(bytes: usize) -> Chains {
        Chains { nodes: bounded(bytes, 512, WeighNode), next: AtomicU64::new(0) }
    }

    /// Appends the hashes of the full blocks of `segments`.
    pub(super) fn hash_into(
        &self,
        hasher: &BlockHasher,
        space: &Namespace<'_>,
        segments: &[Arc<Segment>],
        out: &mut Vec<BlockHash>,
    ) {
        let block_size = hasher.block_size();
        let mut chain = hasher.chain(space);
        let mut before = Before::Start { chain, block_size };
        let mut last: Option<Arc<Node>> = None;
        for segment in segments {
            let prefix = Prefix { before, segment: segment.id };
            let node = self.nodes.get(&prefix).unwrap_or_else(|| {
                let rest = last.as_ref().map_or(&[][..], |node| &node.rest);
                let node = Arc::new(self.extend(&mut chain, rest, &segment.ids, block_size));
                self.nodes.insert(prefix, Arc::clone(&node));
                node
            });
            out.extend_from_slice(&node.hashes);
            chain = node.chain;
            before = Before::Node(node.id);
            last = Some(node);
        }
    }

    fn extend(&self, chain: &mut Chain, rest: &[u8], ids: &[u8], block_size: usize) -> Node {
        let (mut rest, mut hashes) = (rest.to_vec(), Vec::new());
        chain.feed(&mut rest, ids, block_size * 4, &mut hashes);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        Node { id, chain: *chain, hashes: hashes.into(), rest: rest.into() }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.nodes.weight()
    }
}
