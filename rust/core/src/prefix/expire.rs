//! The sweep: predictions whose time has come, a few nodes at a time.

use super::PrefixIndex;
use crate::time::Time;

impl PrefixIndex {
    /// Drops predictions that have expired at `now`, in the next `max_nodes` nodes; gives how many blocks.
    ///
    /// Called again and again it goes round all nodes. Expired predictions count for nothing before they
    /// are swept: this gives back their memory, and merges nodes that eviction left apart.
    pub fn expire(&mut self, now: Time, max_nodes: usize) -> usize {
        let mut dropped = 0;
        for _ in 0..max_nodes.min(self.slab.end() as usize) {
            if self.cursor >= self.slab.end() {
                self.cursor = 0;
            }
            let id = self.cursor;
            self.cursor += 1;
            if self.slab.contains(id) {
                dropped += self.sweep(id, now);
            }
        }
        self.counters.expired_blocks += dropped as u64;
        dropped
    }

    /// Drops what has expired in one node, tidies it, and goes on with what tidying merged into it.
    fn sweep(&mut self, id: u32, now: Time) -> usize {
        let (mut dropped, mut found) = (0, self.expire_node(id, now));
        let mut next = self.tidy(id);
        while let Some(id) = next {
            dropped += found;
            found = self.expire_node(id, now);
            if found == 0 {
                return dropped;
            }
            next = self.tidy(id);
        }
        dropped + found
    }

    fn expire_node(&mut self, id: u32, now: Time) -> usize {
        let mut dropped = 0;
        for at in (0..self.slab[id].holders.len()).rev() {
            let holder = self.slab[id].holders[at];
            if holder.held > holder.confirmed && holder.expires <= now {
                dropped += self.keep_confirmed(id, holder.worker);
            }
        }
        dropped
    }
}
