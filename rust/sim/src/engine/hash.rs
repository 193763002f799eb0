//! The engine's block hashes: 64 bits, chained, and another function than the router's, so that a test in
//! which both agree agrees on tokens and not on a shared mistake.

use super::request::Space;

/// Cuts tokens into blocks and chains their hashes; equal hashes mean equal prefixes in equal spaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    block_size: usize,
    seed: u64,
}

impl Chain {
    pub(super) fn new(block_size: u32, seed: u64) -> Chain {
        Chain { block_size: block_size as usize, seed }
    }

    /// What the first block of a prompt in `space` is chained to.
    pub(super) fn root(&self, space: &Space) -> u64 {
        let mut root = fold(self.seed ^ 0x51_7C_C1_B7_27_22_0A_95);
        for part in [space.salt.as_deref(), space.lora.as_ref().map(|lora| lora.name.as_str())] {
            // Absent and empty differ, and a length keeps ("a", "b") from ("ab", "").
            root = fold(root ^ part.map_or(u64::MAX, |text| text.len() as u64));
            for chunk in part.unwrap_or_default().as_bytes().chunks(4) {
                root = fold(root ^ chunk.iter().fold(1, |word, &byte| word << 8 | u64::from(byte)));
            }
        }
        root
    }

    /// Appends the hashes of the full blocks of `tokens`, the first of which follows `parent`.
    pub(super) fn extend(&self, mut parent: u64, tokens: &[u32], out: &mut Vec<u64>) {
        out.reserve(tokens.len() / self.block_size);
        for block in tokens.chunks_exact(self.block_size) {
            parent = self.next(parent, block);
            out.push(parent);
        }
    }

    /// The hash of `tokens` after `parent`; any number of tokens.
    pub(super) fn next(&self, parent: u64, tokens: &[u32]) -> u64 {
        let mut hash = parent;
        let (pairs, rest) = tokens.as_chunks::<2>();
        for &[a, b] in pairs {
            hash = fold(hash ^ (u64::from(a) | u64::from(b) << 32));
        }
        // 2^33 marks the odd one out: (a) and (a, 0) differ.
        rest.iter().fold(hash, |hash, &token| fold(hash.rotate_left(17) ^ (u64::from(token) | 1 << 33)))
    }
}

/// One output of the hash as a number below `bound`, for a deterministic choice.
pub(super) fn choose(seed: u64, index: u64, bound: usize) -> usize {
    (fold(seed ^ index.wrapping_mul(0xA24B_AED4_963E_E407)) % bound as u64) as usize
}

#[inline]
fn fold(word: u64) -> u64 {
    // Added first, so that no word is mapped to itself or to zero by the product.
    let product = u128::from(word.wrapping_add(0x2D35_8DCC_AA6C_78A5)) * 0x8BB8_4B93_962E_ACC9;
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::Lora;

    #[test]
    fn each_part_of_a_space_separates() {
        let chain = Chain::new(4, 0);
        let salt = |text: &str| Space { salt: Some(text.into()), lora: None };
        let lora = |text: &str| Space { salt: None, lora: Some(Lora { id: 1, name: text.into() }) };
        let spaces = [Space::default(), salt(""), salt("a"), salt("ab"), lora(""), lora("a"), lora("ab")];
        let mut roots: Vec<_> = spaces.iter().map(|space| chain.root(space)).collect();
        roots.push(Chain::new(4, 1).root(&Space::default()));
        roots.sort_unstable();
        roots.dedup();
        assert_eq!(roots.len(), spaces.len() + 1);
    }

    proptest! {
        #[test]
        fn equal_hashes_are_equal_prefixes(
            a in prop::collection::vec(0_u32..3, 0..40),
            b in prop::collection::vec(0_u32..3, 0..40),
            size in 1_u32..5,
        ) {
            let chain = Chain::new(size, 7);
            let (mut ha, mut hb) = (Vec::new(), Vec::new());
            chain.extend(1, &a, &mut ha);
            chain.extend(1, &b, &mut hb);
            for (i, (x, y)) in ha.iter().zip(&hb).enumerate() {
                let end = (i + 1) * size as usize;
                prop_assert_eq!(x == y, a[..end] == b[..end]);
            }
        }
    }
}
