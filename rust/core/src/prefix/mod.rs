//! The interface that the router is written against; the index replaces this file whole.
#![allow(missing_docs, unused)]
use crate::{block::BlockHash, ids::Slot, time::Time};
#[derive(Debug, Default)]
pub struct Overlaps;
#[derive(Debug, Default, Clone, Copy)]
pub struct Overlap {
    pub blocks: u32,
    pub confirmed: u32,
}
impl Overlaps {
    pub fn get(&self, s: Slot) -> Overlap {
        Overlap::default()
    }
}
#[derive(Debug)]
pub struct PrefixIndex;
#[derive(Debug, Default, Clone)]
pub struct IndexStats {
    pub bytes: usize,
}
impl PrefixIndex {
    pub fn new(max_bytes: usize) -> Self {
        PrefixIndex
    }
    pub fn add_worker(&mut self, s: Slot, c: Option<u32>) {}
    pub fn set_capacity(&mut self, s: Slot, c: Option<u32>) {}
    pub fn remove_worker(&mut self, s: Slot) {}
    pub fn clear_worker(&mut self, s: Slot) {}
    pub fn lookup(&self, b: &[BlockHash], now: Time, out: &mut Overlaps) {}
    pub fn predict(&mut self, s: Slot, b: &[BlockHash], now: Time, e: Time) {}
    pub fn expire(&mut self, now: Time, n: usize) -> usize {
        0
    }
    pub fn blocks(&self, s: Slot) -> (u64, u64) {
        (0, 0)
    }
    pub fn stats(&self) -> IndexStats {
        IndexStats::default()
    }
}
