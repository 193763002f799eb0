//! How many distinct KV blocks a worker's active requests use.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::block::BlockHash;

/// One block in this many is looked at. A hash stands for everything before it, so requests that share one
/// share all blocks up to it; fewer would count more of a shared prefix twice, more would cost more a booking.
const STRIDE: usize = 64;

/// The blocks that one request uses on a worker.
#[derive(Debug, Default)]
pub(crate) struct Used {
    checkpoints: Box<[BlockHash]>,
    rest: u64,
}

/// The blocks in use on one worker; shared ones count once, up to [`STRIDE`] blocks a request.
#[derive(Debug, Default)]
pub(crate) struct ActiveBlocks {
    shared: HashMap<BlockHash, u32>,
    rest: u64,
}

impl ActiveBlocks {
    /// Takes in a request with these prompt blocks and `output` more.
    pub(crate) fn add(&mut self, blocks: &[BlockHash], output: u64) -> Used {
        let checkpoints: Box<[_]> = blocks.chunks_exact(STRIDE).filter_map(<[_]>::last).copied().collect();
        for checkpoint in &checkpoints {
            *self.shared.entry(*checkpoint).or_default() += 1;
        }
        let rest = (blocks.len() % STRIDE) as u64 + output;
        self.rest += rest;
        Used { checkpoints, rest }
    }

    /// Gives back what [`ActiveBlocks::add`] took.
    pub(crate) fn release(&mut self, used: &Used) {
        self.rest -= used.rest;
        for checkpoint in &used.checkpoints {
            if let Entry::Occupied(mut count) = self.shared.entry(*checkpoint) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    /// Distinct blocks in use.
    pub(crate) fn blocks(&self) -> u64 {
        (self.shared.len() * STRIDE) as u64 + self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_prefix_counts_once() {
        let blocks: Vec<_> = (0..200).map(BlockHash).collect();
        let mut active = ActiveBlocks::default();
        let first = active.add(&blocks, 5);
        assert_eq!(active.blocks(), 205);
        let second = active.add(&blocks[..192], 0);
        assert_eq!(active.blocks(), 205);
        active.release(&first);
        assert_eq!(active.blocks(), 192);
        active.release(&second);
        assert_eq!(active.blocks(), 0);
        assert!(active.shared.is_empty());
    }
}
