//! What is confirmed of a worker, in its engine's own names: to be compared with the engine.

use super::{Mirror, Status};
use crate::event::{EngineHash, Tier};

/// Blocks that are looked up under one lock: a decision waits for a few microseconds.
const BLOCKS_AT_ONCE: usize = 64;

/// What the index holds as confirmed for one worker's device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmed {
    /// The number of the batch that comes next: what is told is the state before it.
    pub next: u64,
    /// Whether every batch before `next` was applied.
    pub live: bool,
    /// Blocks that the router's index has as confirmed, whatever their names.
    pub blocks: u64,
    /// The engine's names of those that it has, in no order.
    pub names: Vec<EngineHash>,
}

impl Mirror {
    /// Asks the index about every block that the engine is known to hold. It takes time and memory in proportion to
    /// them: made for a look at a worker, not for a request's way.
    ///
    /// Where the index is right, there are as many names as blocks (a name covers several of the router's blocks where
    /// the engine's are larger, or a part of one where they are smaller), and the engine has the same.
    pub fn confirmed(&self) -> Confirmed {
        let held: Vec<_> = self.tiers[Tier::Device as usize].iter().collect();
        let mut names = Vec::with_capacity(held.len());
        for part in held.chunks(BLOCKS_AT_ONCE) {
            let router = self.router.lock();
            let confirmed =
                part.iter().filter(|(_, block)| router.is_confirmed(self.worker, Tier::Device, *block));
            names.extend(confirmed.map(|(name, _)| *name));
        }
        // A page is no block of the index: its block may lack another one.
        names.extend(self.pages.iter().flat_map(|pages| pages.held_on_device()));
        let blocks = self.router.lock().index().blocks(self.worker.slot).0;
        Confirmed { next: self.order.next(), live: self.status() == Status::Live, blocks, names }
    }
}
