//! What the engine tells about its cache.

use std::sync::Arc;

use super::request::Space;

/// A change of the set of cached blocks, as vLLM reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvEvent {
    /// Blocks of one request were filled, one after the other.
    Stored {
        /// The hash that the first of them is chained to; none at the start of a prompt.
        parent: Option<u64>,
        /// Their hashes.
        hashes: Vec<u64>,
        /// Their tokens.
        tokens: Vec<u32>,
        /// What separates them from others.
        space: Arc<Space>,
    },
    /// A block was given to another use. A hash that several blocks have is removed once for each.
    Removed {
        /// Its hash.
        hash: u64,
    },
    /// The cache was reset.
    Cleared,
}
