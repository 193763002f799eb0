//! What a mirror counts.

use crate::event::EventFault;

/// Counters since the start, and the state of the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorStats {
    /// Batches that were applied, replayed ones among them.
    pub batches: u64,
    /// Batches that came because they were asked for.
    pub replayed_batches: u64,
    /// Batches that came again.
    pub duplicates: u64,
    /// Times that batches were missing.
    pub gaps: u64,
    /// Times that missing batches could not be had, or that more blocks were named than the engine has.
    pub losses: u64,
    /// Those batches.
    pub lost_batches: u64,
    /// Times that another process was found in the worker's place.
    pub restarts: u64,
    /// Times that the worker said that its cache is empty.
    pub cleared: u64,
    /// Blocks stored, copies among them.
    pub stored_blocks: u64,
    /// Blocks that were announced again though nothing changed.
    pub repeated_blocks: u64,
    /// Blocks removed.
    pub removed_blocks: u64,
    /// Blocks that could not be placed: the block before them is not known.
    pub orphan_blocks: u64,
    /// Blocks that were forgotten because they were more than the engine has, or than names have room for.
    pub forgotten_blocks: u64,
    /// Blocks of groups, places and sizes that are not indexed.
    pub ignored_blocks: u64,
    /// Removals of blocks that were not known.
    pub unknown_removals: u64,
    /// Blocks whose size is not the router's.
    pub odd_blocks: u64,
    /// That size, in tokens; zero where there were none.
    pub odd_block_size: u32,
    /// Events and batches that could not be read.
    pub faults: u64,
    /// The last one's fault.
    pub fault: Option<EventFault>,
    /// Blocks held on the device, copies aside.
    pub blocks: usize,
    /// Blocks held in lower tiers, copies aside.
    pub lower_blocks: usize,
    /// Bytes of memory for the names of blocks.
    pub bytes: usize,
    /// The number of the next batch.
    pub next: u64,
}
