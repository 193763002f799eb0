//! Splitting and merging: the shape of the tree follows what workers hold.

use std::ops::Range;

use super::PrefixIndex;
use super::node::{Holder, List, MAX_RUN, Node, Span};
use super::table::Place;
use crate::block::BlockHash;

impl PrefixIndex {
    /// Cuts the run of `id` in two before the block at `at`; gives the upper and the lower node.
    ///
    /// The longer part keeps the number, and its blocks their places in the table. None where the budget
    /// has no room for one more node.
    pub(super) fn split(&mut self, id: u32, at: usize, guard: u32) -> Option<(u32, u32)> {
        let below = self.slab[id].holders.iter().filter(|holder| usize::from(holder.held) > at).count();
        if !self.fit(guard, |index| index.slab.growth() + below * size_of::<Holder>()) {
            return None;
        }
        self.unlink_all(id);
        let new = self.slab.insert();
        let keep_upper = at * 2 > self.slab[id].run.len();
        let (u, l) = if keep_upper { (id, new) } else { (new, id) };
        if keep_upper {
            self.lru_insert_before(id, new)
        } else {
            self.lru_insert_after(id, new)
        }
        let (u_links, l_links) = (self.lru_links(u), self.lru_links(l));

        let mut upper = std::mem::take(&mut self.slab[id]);
        self.heap -= upper.heap_bytes();
        let (first, cut) = (upper.base, upper.offset(at));
        let mut lower = Node {
            run: upper.run.split_off(at),
            holders: Vec::with_capacity(below),
            parent: upper.run[at - 1],
            top: false,
            base: if keep_upper { 0 } else { cut },
            ..upper.shape()
        };
        upper.run.shrink_to_fit();
        upper.base = if keep_upper { first } else { 0 };
        (upper.children, upper.child_xor) = (1, lower.run[0].0);
        for holder in &mut upper.holders {
            let (above, rest) = holder.span().split(at);
            holder.set(above);
            if rest.held > 0 {
                lower.holders.push(Holder::new(holder.worker, rest));
            }
        }
        (upper.older, upper.newer) = u_links;
        (lower.older, lower.newer) = l_links;
        self.heap += upper.heap_bytes() + lower.heap_bytes();
        (self.slab[u], self.slab[l]) = (upper, lower);

        let old = Place { node: id, offset: if keep_upper { cut } else { first } };
        self.rename(new, 0..self.slab[new].run.len(), old);
        self.relink_split(u, l);
        Some((u, l))
    }

    /// Merges a parent with its only child; gives the number that stays, that of the longer part.
    pub(super) fn merge(&mut self, u: u32, l: u32) -> u32 {
        let keep_upper = self.slab[u].run.len() >= self.slab[l].run.len();
        let (kept, gone) = if keep_upper { (u, l) } else { (l, u) };
        self.unlink_all(l);
        self.unlink_all(u);
        self.lru_unlink(l);
        if !keep_upper {
            self.lru_insert_after(u, l);
            self.lru_unlink(u);
        }
        let links = self.lru_links(kept);

        let slack = self.slack(u, l);
        let mut lower = std::mem::take(&mut self.slab[l]);
        let mut upper = std::mem::take(&mut self.slab[u]);
        self.heap -= upper.heap_bytes() + lower.heap_bytes();
        let at = upper.run.len();
        let (moved, old) = if keep_upper {
            (at..at + lower.run.len(), Place { node: l, offset: lower.base })
        } else {
            (0..at, Place { node: u, offset: upper.base })
        };
        if upper.run.capacity() < at + lower.run.len() {
            upper.run.reserve_exact(lower.run.len() + slack);
        }
        upper.run.append(&mut lower.run);
        for below in &lower.holders {
            let Ok(place) = upper.position(below.worker) else { continue };
            let holder = &mut upper.holders[place];
            let (above, rest) = (holder.span(), below.span());
            let confirmed = if above.confirmed == at { at + rest.confirmed } else { above.confirmed };
            holder.set(Span::new(confirmed, at + rest.held, rest.expires));
            // The lower blocks are the older ones, and have the merged entry's place in the list.
            holder.prev = below.prev;
        }
        (upper.children, upper.child_xor) = (lower.children, lower.child_xor);
        upper.base = if keep_upper { upper.base } else { lower.base.wrapping_sub(at as u16) };
        (upper.older, upper.newer) = links;
        self.heap += upper.heap_bytes();
        self.slab[kept] = upper;
        self.slab.remove(gone);

        self.rename(kept, moved, old);
        self.relink_merged(kept);
        kept
    }

    /// Whether `l`, the only child of `u`, and `u` have the shape of one node.
    ///
    /// Who holds some of the lower run holds all of the upper one; others may hold a part of that. Where a worker
    /// has predictions in both, they expire together; where all of both is predicted or all is confirmed, nothing of
    /// the worker was touched between them.
    pub(super) fn mergeable(&self, u: u32, l: u32) -> bool {
        let (upper, lower) = (&self.slab[u], &self.slab[l]);
        let at = upper.run.len();
        at + lower.run.len() <= MAX_RUN
            && lower.holders.iter().all(|below| {
                let Some(above) = upper.holder(below.worker) else { return false };
                let follows = below.next == u;
                let predicted = below.confirmed == 0 && above.expires == below.expires && follows;
                let confirmed =
                    usize::from(above.confirmed) == at && (below.confirmed < below.held || follows);
                usize::from(above.held) == at && (confirmed || predicted)
            })
    }

    /// Room to reserve for a run that grows bit by bit, where the budget has it.
    fn slack(&self, u: u32, l: u32) -> usize {
        let slack = (self.slab[u].run.len() + self.slab[l].run.len()) / 16;
        if self.bytes() + slack * size_of::<BlockHash>() <= self.max_bytes { slack } else { 0 }
    }

    /// Tells the table that the blocks at `indices` of `id`, which were at `old` and after, are there.
    fn rename(&mut self, id: u32, indices: Range<usize>, old: Place) {
        let node = &self.slab[id];
        for (i, index) in indices.enumerate() {
            let old = Place { offset: old.offset.wrapping_add(i as u16), ..old };
            self.table.replace(node.run[index], old, Place { node: id, offset: node.offset(index) });
        }
    }

    fn lru_links(&self, id: u32) -> (u32, u32) {
        (self.slab[id].older, self.slab[id].newer)
    }

    /// Takes all entries of `id` out of their workers' lists; their own links stay.
    fn unlink_all(&mut self, id: u32) {
        for at in 0..self.slab[id].holders.len() {
            let holder = self.slab[id].holders[at];
            if let Some(list) = holder.span().list() {
                self.unlink(id, holder.worker, list);
            }
        }
    }

    /// Links the entries of a split node, deeper first, where the whole one was.
    fn relink_split(&mut self, u: u32, l: u32) {
        for at in 0..self.slab[u].holders.len() {
            let Holder { worker, mut prev, .. } = self.slab[u].holders[at];
            let lists = [l, u].map(|id| self.span(id, worker).list());
            let whole =
                if lists.contains(&Some(List::Predicted)) { List::Predicted } else { List::Confirmed };
            for (id, list) in [l, u].into_iter().zip(lists) {
                match list {
                    Some(list) if list == whole => {
                        self.link_after(prev, id, worker, list);
                        prev = id;
                    }
                    // The part was in no list of its kind before: it goes with what was used last.
                    Some(list) => self.link_after(self.ends(worker, list)[1], id, worker, list),
                    None => {}
                }
            }
        }
    }

    /// Links the entries of a merged node where `prev` says.
    fn relink_merged(&mut self, id: u32) {
        for at in 0..self.slab[id].holders.len() {
            let holder = self.slab[id].holders[at];
            if let Some(list) = holder.span().list() {
                self.link_after(holder.prev, id, holder.worker, list);
            }
        }
    }
}
