//! Everything recomputed from scratch and compared, for tests.

use std::collections::HashMap;
use std::fmt;

use super::PrefixIndex;
use super::lower::LOWER;
use super::node::{Holder, List, MAX_RUN, NIL, Node};
use super::table::Place;
use super::workers::Worker;
use crate::block::BlockHash;
use crate::ids::Slot;

/// What [`PrefixIndex::check`] found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistency(String);

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Inconsistency {}

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(Inconsistency(format!($($message)+)));
        }
    };
}

impl PrefixIndex {
    /// Recomputes everything that is kept up to date step by step, and compares: bytes, counts, lists, the
    /// table, the tree. Takes time in proportion to the whole index; it is for tests.
    ///
    /// # Errors
    /// The first difference found.
    pub fn check(&self) -> Result<(), Inconsistency> {
        let ids: Vec<u32> = (0..self.slab.end()).filter(|&id| self.slab.contains(id)).collect();
        ensure!(ids.len() == self.slab.len(), "{} nodes live, {} counted", ids.len(), self.slab.len());
        for &id in &ids {
            self.check_node(id)?;
        }
        self.check_tree(&ids)?;
        self.check_lru(ids.len())?;
        self.check_workers(&ids)?;
        self.check_bytes(&ids)
    }

    /// No leaf ends in blocks that nobody holds. Eviction during another operation may leave some behind;
    /// this holds again once [`PrefixIndex::expire`] has gone round.
    ///
    /// # Errors
    /// The first leaf found.
    pub fn check_trimmed(&self) -> Result<(), Inconsistency> {
        for (id, node) in
            (0..self.slab.end()).filter(|&id| self.slab.contains(id)).map(|id| (id, &self.slab[id]))
        {
            let (held, len) = (node.longest(), node.run.len());
            ensure!(node.children > 0 || held == len, "leaf {id}: {held} of {len} blocks are held");
        }
        Ok(())
    }

    /// No two nodes are apart that could be one. Holds once [`PrefixIndex::expire`] has gone round twice.
    ///
    /// # Errors
    /// The first pair found.
    pub fn check_merged(&self) -> Result<(), Inconsistency> {
        for id in (0..self.slab.end()).filter(|&id| self.slab.contains(id)) {
            if let Some(parent) = self.parent_of(id) {
                let single = self.slab[parent].children == 1;
                ensure!(!(single && self.mergeable(parent, id)), "nodes {parent} and {id} could be one");
            }
        }
        Ok(())
    }

    fn check_node(&self, id: u32) -> Result<(), Inconsistency> {
        let node = &self.slab[id];
        let len = node.run.len();
        ensure!(len <= MAX_RUN, "node {id} has {len} blocks");
        ensure!(node.holders.is_sorted_by(|a, b| a.worker < b.worker), "node {id}: holders out of order");
        for holder in &node.holders {
            let (confirmed, held) = (holder.confirmed, holder.held);
            ensure!(
                confirmed <= held && held > 0 && usize::from(held) <= len,
                "node {id}: {holder:?} of {len}"
            );
            ensure!(confirmed < held || holder.expires.as_nanos() == 0, "node {id}: {holder:?} expires");
        }
        for (index, &hash) in node.run.iter().enumerate() {
            let place = Place { node: id, offset: node.offset(index) };
            let found = self.table.find(hash, |found| found == place);
            ensure!(found.is_some(), "node {id}, block {index}: not in the table");
        }
        Ok(())
    }

    fn check_tree(&self, ids: &[u32]) -> Result<(), Inconsistency> {
        let mut children: HashMap<u32, (u32, u64)> = HashMap::new();
        for &id in ids {
            let node = &self.slab[id];
            if node.top {
                continue;
            }
            let Some((parent, index)) = self.find(node.parent) else {
                return Err(Inconsistency(format!("node {id}: its parent is not in the table")));
            };
            ensure!(index + 1 == self.slab[parent].run.len(), "node {id} hangs inside node {parent}");
            let (count, xor) = children.entry(parent).or_default();
            *count += 1;
            *xor ^= node.run[0].0;
        }
        for &id in ids {
            let node = &self.slab[id];
            let (count, xor) = children.get(&id).copied().unwrap_or_default();
            ensure!(
                (node.children, node.child_xor) == (count, xor),
                "node {id} has {count} children: {node:?}"
            );
        }
        let blocks: usize = ids.iter().map(|&id| self.slab[id].run.len()).sum();
        ensure!(blocks == self.table.len(), "{blocks} blocks, {} in the table", self.table.len());
        Ok(())
    }

    fn check_lru(&self, nodes: usize) -> Result<(), Inconsistency> {
        let (mut id, mut older, mut rank) = (self.oldest, NIL, HashMap::new());
        while id != NIL {
            let node = &self.slab[id];
            ensure!(node.older == older, "node {id}: the one before is {}, not {older}", node.older);
            ensure!(rank.insert(id, rank.len()).is_none(), "node {id} is twice in the list of nodes");
            if older != NIL {
                ensure!(
                    self.slab[older].touched <= node.touched,
                    "node {id} is older than {older} before it"
                );
            }
            (older, id) = (id, node.newer);
        }
        ensure!(self.newest == older && rank.len() == nodes, "{} of {nodes} nodes listed", rank.len());
        for &id in rank.keys() {
            if let Some(parent) = self.parent_of(id) {
                ensure!(rank[&id] < rank[&parent], "node {id} is newer than {parent} above it");
            }
        }
        Ok(())
    }

    fn check_workers(&self, ids: &[u32]) -> Result<(), Inconsistency> {
        let mut sums: HashMap<u32, (usize, usize)> = HashMap::new();
        let mut entries: HashMap<(u32, usize), usize> = HashMap::new();
        for holder in ids.iter().flat_map(|&id| &self.slab[id].holders) {
            let (confirmed, predicted) = sums.entry(holder.worker).or_default();
            *confirmed += holder.span().confirmed;
            *predicted += holder.span().predicted();
            if let Some(list) = holder.span().list() {
                *entries.entry((holder.worker, list as usize)).or_default() += 1;
            }
        }
        for worker in sums.keys() {
            ensure!(self.worker(Slot(*worker)).is_some(), "worker {worker} is unknown and holds blocks");
        }
        let mut totals = [(0, 0); 2];
        let slots =
            (0..self.workers.len() as u32).chain((0..self.lower.len() as u32).map(|slot| slot | LOWER));
        for slot in slots.map(Slot) {
            let Some(worker) = self.worker(slot) else { continue };
            let sum = sums.get(&slot.0).copied().unwrap_or_default();
            ensure!((worker.confirmed, worker.predicted) == sum, "worker {slot:?} holds {sum:?}: {worker:?}");
            let within = worker
                .capacity
                .is_none_or(|capacity| worker.predicted + worker.ballast.blocks() <= capacity as usize);
            ensure!(within, "worker {slot:?} is over its capacity: {worker:?}");
            let total = &mut totals[usize::from(slot.0 & LOWER != 0)];
            *total = (total.0 + sum.0, total.1 + sum.1);
            for list in [List::Predicted, List::Confirmed] {
                let listed = self.check_list(slot, list)?;
                let counted = entries.get(&(slot.0, list as usize)).copied().unwrap_or(0);
                ensure!(listed == counted, "worker {slot:?}: {listed} of {counted} entries in {list:?}");
            }
        }
        let counted = [(self.counters.confirmed, self.counters.predicted), (self.counters.lower, 0)];
        ensure!(totals == counted, "{totals:?} pairs, {counted:?} counted");
        Ok(())
    }

    fn check_list(&self, slot: Slot, list: List) -> Result<usize, Inconsistency> {
        let [mut id, newest] = self.ends(slot.0, list);
        let (mut prev, mut listed) = (NIL, 0);
        while id != NIL {
            ensure!(self.slab.contains(id), "worker {slot:?}: node {id} is listed and gone");
            let Some(links) = self.links(id, slot.0) else {
                return Err(Inconsistency(format!("worker {slot:?}: listed in node {id} and no holder")));
            };
            ensure!(links.0 == prev, "worker {slot:?}: {links:?} in node {id} after {prev}");
            ensure!(self.span(id, slot.0).list() == Some(list), "worker {slot:?}: node {id} is not {list:?}");
            listed += 1;
            (prev, id) = (id, links.1);
        }
        ensure!(prev == newest, "worker {slot:?}: the newest of {list:?} is {prev}, not {newest}");
        Ok(listed)
    }

    fn check_bytes(&self, ids: &[u32]) -> Result<(), Inconsistency> {
        let bytes = |node: &Node| {
            node.run.capacity() * size_of::<BlockHash>() + node.holders.capacity() * size_of::<Holder>()
        };
        let heap: usize = ids.iter().map(|&id| bytes(&self.slab[id])).sum();
        ensure!(heap == self.heap, "{heap} bytes of runs and holders, {} counted", self.heap);
        self.table.check().map_err(Inconsistency)?;
        let workers = (self.workers.capacity() + self.lower.capacity()) * size_of::<Option<Worker>>();
        let bytes = heap + self.slab.recount() + self.table.recount() + workers;
        ensure!(bytes == self.bytes(), "{bytes} bytes, {} counted", self.bytes());
        Ok(())
    }
}
