//! Which worker holds which blocks: a path-compressed radix tree over chained block hashes.
//!
//! A node is a run of blocks without a branch, and its holders: of the run, a worker holds `confirmed`
//! blocks learnt from events, then predicted ones up to `held`. What has another shape (a hole, a
//! prediction prolonged in part) is given this one by splitting the node; what fits together again is
//! merged, so that eviction and refill do not leave ever smaller nodes behind.
//!
//! Since equal hashes mean equal prefixes, nodes need no map of their children: one table from hash to
//! place finds the next node of a descent, the parent of a stored run and the block of a removal alike,
//! and one comparison with a run's last block stands for the comparison of the whole run.
//!
//! Everything is bounded by one budget of bytes. See `docs/adr/0001-prefix-index.md`.

mod ballast;
mod budget;
mod check;
mod expire;
mod forget;
mod grow;
mod lists;
mod lookup;
mod lower;
mod lru;
mod mark;
mod node;
mod predict;
mod remove;
mod shape;
mod slab;
mod stats;
mod store;
mod table;
mod tidy;
mod used;
mod walk;
mod workers;

#[cfg(test)]
mod model;

pub use forget::{Forget, Forgetting};
pub use lookup::{Overlap, Overlaps};
pub use stats::IndexStats;
pub use store::UnknownParent;

use node::NIL;
use slab::Slab;
use stats::Counters;
use table::Table;
use workers::Worker;

use crate::time::Time;

/// Which worker holds which blocks, confirmed or predicted, within a budget of bytes.
#[derive(Debug)]
pub struct PrefixIndex {
    max_bytes: usize,
    /// The latest moment that anyone told.
    now: Time,
    slab: Slab,
    table: Table,
    /// By slot.
    workers: Vec<Option<Worker>>,
    /// The workers' lower tiers, by slot.
    lower: Vec<Option<Worker>>,
    /// Bytes of all runs and holders.
    heap: usize,
    /// The ends of the list of all nodes by last touch; a parent is newer than its children.
    oldest: u32,
    newest: u32,
    /// The node that [`PrefixIndex::expire`] looks at next.
    cursor: u32,
    counters: Counters,
}

impl PrefixIndex {
    /// An empty index that never takes more than `max_bytes` bytes.
    ///
    /// What does not fit is evicted, least recently used first. The empty table and a place for each
    /// worker count too: an index that has no room beyond them knows nothing, and overlaps are zero.
    pub fn new(max_bytes: usize) -> PrefixIndex {
        PrefixIndex {
            max_bytes,
            now: Time::ZERO,
            slab: Slab::new(),
            table: Table::new(max_bytes),
            workers: Vec::new(),
            lower: Vec::new(),
            heap: 0,
            oldest: NIL,
            newest: NIL,
            cursor: 0,
            counters: Counters::default(),
        }
    }

    /// Bytes allocated, exactly: capacities, not lengths.
    pub fn bytes(&self) -> usize {
        let workers = (self.workers.capacity() + self.lower.capacity()) * size_of::<Option<Worker>>();
        self.slab.bytes() + self.table.bytes() + self.heap + workers
    }

    /// The budget that [`PrefixIndex::bytes`] stays within.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }
}
