//! What the index holds, and what it gave up.

use super::PrefixIndex;
use super::node::NIL;
use crate::time::Time;

/// Figures for metrics; all in constant time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Bytes allocated.
    pub bytes: usize,
    /// The budget.
    pub max_bytes: usize,
    /// Nodes of the tree.
    pub nodes: usize,
    /// Distinct blocks.
    pub blocks: usize,
    /// Pairs of a block and a worker that holds it: `confirmed + predicted + lower`.
    pub pairs: usize,
    /// Pairs that are confirmed.
    pub confirmed: usize,
    /// Pairs that are predicted, expired ones that are not swept included.
    pub predicted: usize,
    /// Pairs of a block and a worker that holds it in a lower tier.
    pub lower: usize,
    /// When the least recently used node was touched; none in an empty index.
    pub oldest: Option<Time>,
    /// Distinct blocks evicted for the budget, since the start.
    pub evicted_blocks: u64,
    /// Blocks of prompts not taken because there was no room, since the start.
    pub cut_blocks: u64,
    /// Predicted pairs dropped because they expired, since the start.
    pub expired_blocks: u64,
    /// Predicted pairs dropped for a worker's capacity, since the start.
    pub capacity_dropped: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) confirmed: usize,
    pub(super) predicted: usize,
    pub(super) lower: usize,
    pub(super) evicted_blocks: u64,
    pub(super) cut_blocks: u64,
    pub(super) expired_blocks: u64,
    pub(super) capacity_dropped: u64,
}

impl PrefixIndex {
    /// What the index holds, and what it gave up.
    pub fn stats(&self) -> IndexStats {
        let Counters { confirmed, predicted, lower, evicted_blocks, cut_blocks, .. } = self.counters;
        let Counters { expired_blocks, capacity_dropped, .. } = self.counters;
        IndexStats {
            bytes: self.bytes(),
            max_bytes: self.max_bytes,
            nodes: self.slab.len(),
            blocks: self.table.len(),
            pairs: confirmed + predicted + lower,
            confirmed,
            predicted,
            lower,
            oldest: (self.oldest != NIL).then(|| self.slab[self.oldest].touched),
            evicted_blocks,
            cut_blocks,
            expired_blocks,
            capacity_dropped,
        }
    }
}
