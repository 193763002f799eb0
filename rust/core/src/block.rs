//! Blocks: a prompt cut into the engine's unit of KV caching, each with a hash of everything up to it.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The hash of one block chained with everything before it: equal hashes mean equal prefixes.
///
/// 64 bits: with ten million blocks known, a given request meets a false match with a chance below
/// one in a trillion, and a false match costs one badly chosen worker, never a wrong answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub u64);

/// What separates two prompts with equal tokens: their blocks are never shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespace<'a> {
    /// The model's name as the request gives it.
    pub model: &'a str,
    /// The LoRA adapter's name; empty where there is none.
    pub lora: &'a str,
    /// vLLM's `cache_salt`; empty where there is none.
    pub salt: &'a str,
    /// What the units are: token ids and text bytes never match one another.
    pub units: Units,
}

/// What a prompt is measured in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Units {
    /// Exact token ids.
    #[default]
    Tokens,
    /// The request's text; an approximation for a model without a tokenizer.
    Bytes,
}

/// Bytes of text that stand for one token where there is no tokenizer.
///
/// English prose and code have about 4 bytes a token in the vocabularies of 2024–2026.
pub const BYTES_PER_TOKEN: usize = 4;

/// Cuts prompts into blocks and chains their hashes.
#[derive(Clone, Copy, Debug)]
pub struct BlockHasher {
    block_size: usize,
    seed: u64,
}

impl BlockHasher {
    /// A hasher for blocks of `block_size` tokens. Routers that must agree on hashes share `seed`.
    ///
    /// # Panics
    /// When `block_size` is zero; [`crate::config::RouterConfig`] refuses that value.
    pub fn new(block_size: u32, seed: u64) -> BlockHasher {
        assert!(block_size > 0, "block_size is at least 1");
        BlockHasher { block_size: block_size as usize, seed }
    }

    /// Tokens in one block.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Appends the hash of every full block of `ids` to `out`; a trailing part of a block has none.
    ///
    /// `ids` are token ids as little-endian `u32`, packed. Bytes after the last whole id are ignored.
    pub fn hash_ids(&self, space: &Namespace<'_>, ids: &[u8], out: &mut Vec<BlockHash>) {
        self.chain(space).extend(ids, self.block_size * 4, out);
    }

    /// The same for text, where [`BYTES_PER_TOKEN`] bytes stand for a token.
    ///
    /// The text is the concatenation of `spans`: where one ends and the next begins does not matter.
    pub fn hash_text(&self, space: &Namespace<'_>, spans: &[&[u8]], out: &mut Vec<BlockHash>) {
        let stride = self.block_size * BYTES_PER_TOKEN;
        let mut chain = self.chain(space);
        let mut carry = Vec::new();
        for &span in spans {
            chain.feed(&mut carry, span, stride, out);
        }
    }

    /// Starts the chain of a prompt, for callers that have its blocks one by one.
    pub fn chain(&self, space: &Namespace<'_>) -> Chain {
        Chain { parent: self.root(space), seed: self.seed }
    }

    /// Takes up the chain of a prompt after `block`.
    pub fn after(&self, block: BlockHash) -> Chain {
        Chain { parent: block.0, seed: self.seed }
    }

    fn root(&self, space: &Namespace<'_>) -> u64 {
        let units = match space.units {
            Units::Tokens => 1,
            Units::Bytes => 2,
        };
        // Each part is hashed with its own length, so that ("a", "bc") and ("ab", "c") differ.
        [space.model, space.lora, space.salt]
            .iter()
            .fold(mix(self.seed, units), |root, part| mix(root, xxh3_64(part.as_bytes())))
    }
}

/// The hash of a prompt as far as it was read. Equal chains with equal block sizes go on equally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chain {
    parent: u64,
    seed: u64,
}

impl Chain {
    /// Takes in the next block, as bytes, and gives its hash.
    pub fn push(&mut self, block: &[u8]) -> BlockHash {
        // The block's own hash does not depend on its parent, so that the processor overlaps them.
        self.parent = mix(self.parent, xxh3_64_with_seed(block, self.seed));
        BlockHash(self.parent)
    }

    /// Takes in `span`, in blocks of `stride` bytes, and appends their hashes to `out`.
    ///
    /// `carry` is what was left behind the last full block, and then is what this leaves.
    pub fn feed(&mut self, carry: &mut Vec<u8>, span: &[u8], stride: usize, out: &mut Vec<BlockHash>) {
        let mut rest = span;
        if !carry.is_empty() {
            let (head, tail) = rest.split_at(rest.len().min(stride - carry.len()));
            carry.extend_from_slice(head);
            rest = tail;
            if carry.len() < stride {
                return;
            }
            out.push(self.push(carry));
            carry.clear();
        }
        self.extend(rest, stride, out);
        carry.extend_from_slice(&rest[rest.len() - rest.len() % stride..]);
    }

    /// The chain so far, for [`BlockHasher::after`].
    pub fn state(&self) -> BlockHash {
        BlockHash(self.parent)
    }

    /// [`Chain::push`] for a block that `key` tells apart as well, where there is one.
    pub fn push_with(&mut self, block: &[u8], key: Option<u64>) -> BlockHash {
        let hash = self.push(block);
        key.map_or(hash, |key| self.mix_in(key))
    }

    /// Tells the last block apart by what else it depends on than its bytes, and gives its hash then.
    pub fn mix_in(&mut self, key: u64) -> BlockHash {
        self.parent = mix(self.parent, key);
        BlockHash(self.parent)
    }

    fn extend(&mut self, bytes: &[u8], stride: usize, out: &mut Vec<BlockHash>) {
        out.reserve(bytes.len() / stride);
        out.extend(bytes.chunks_exact(stride).map(|block| self.push(block)));
    }
}

/// Chains two hashes by a folded 128-bit product; not symmetric, so that the order of blocks counts.
#[inline]
fn mix(parent: u64, local: u64) -> u64 {
    let product = u128::from(parent ^ 0x9E37_79B9_7F4A_7C15) * u128::from(local ^ 0xD1B5_4A32_D192_ED03);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(range: std::ops::Range<u32>) -> Vec<u8> {
        range.flat_map(u32::to_le_bytes).collect()
    }

    fn hashes(hasher: &BlockHasher, space: &Namespace<'_>, ids: &[u8]) -> Vec<BlockHash> {
        let mut out = Vec::new();
        hasher.hash_ids(space, ids, &mut out);
        out
    }

    #[test]
    fn a_partial_block_has_no_hash() {
        let hasher = BlockHasher::new(16, 0);
        assert_eq!(hashes(&hasher, &Namespace::default(), &ids(0..15)).len(), 0);
        assert_eq!(hashes(&hasher, &Namespace::default(), &ids(0..33)).len(), 2);
    }

    #[test]
    fn each_part_of_the_namespace_separates() {
        let hasher = BlockHasher::new(4, 0);
        let spaces = [
            Namespace::default(),
            Namespace { model: "m", ..Namespace::default() },
            Namespace { lora: "m", ..Namespace::default() },
            Namespace { salt: "m", ..Namespace::default() },
            Namespace { model: "ab", lora: "c", ..Namespace::default() },
            Namespace { model: "a", lora: "bc", ..Namespace::default() },
            Namespace { units: Units::Bytes, ..Namespace::default() },
        ];
        let mut firsts: Vec<_> = spaces.iter().map(|space| hashes(&hasher, space, &ids(0..4))).collect();
        firsts.sort();
        firsts.dedup();
        assert_eq!(firsts.len(), spaces.len());
    }

    #[test]
    fn the_seed_and_the_order_of_blocks_count() {
        let space = Namespace::default();
        let swapped = [ids(4..8), ids(0..4)].concat();
        let hasher = BlockHasher::new(4, 0);
        assert_ne!(hashes(&hasher, &space, &ids(0..8))[1], hashes(&hasher, &space, &swapped)[1]);
        assert_ne!(hashes(&hasher, &space, &ids(0..8)), hashes(&BlockHasher::new(4, 1), &space, &ids(0..8)));
    }

    proptest! {
        #[test]
        fn equal_hashes_are_equal_prefixes(a in prop::collection::vec(0_u32..3, 0..40), b in prop::collection::vec(0_u32..3, 0..40)) {
            let hasher = BlockHasher::new(2, 7);
            let pack = |ids: &[u32]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
            let (ha, hb) = (hashes(&hasher, &Namespace::default(), &pack(&a)), hashes(&hasher, &Namespace::default(), &pack(&b)));
            for (i, (x, y)) in ha.iter().zip(&hb).enumerate() {
                let end = (i + 1) * 2;
                prop_assert_eq!(x == y, a[..end] == b[..end]);
            }
        }

        #[test]
        fn spans_are_hashed_as_their_concatenation(text in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::collection::vec(0_usize..200, 0..5)) {
            let hasher = BlockHasher::new(2, 0);
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let spans: Vec<_> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            hasher.hash_text(&Namespace::default(), &[&text], &mut whole);
            hasher.hash_text(&Namespace::default(), &spans, &mut parts);
            prop_assert_eq!(&whole, &parts);
            prop_assert_eq!(whole.len(), text.len() / 8);
        }
    }
}
