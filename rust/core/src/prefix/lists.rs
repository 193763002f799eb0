//! The two lists of each worker's entries, linked through the holders.
//!
//! An entry is one worker's holder in one node, and is named by the node. The list of entries with
//! predicted blocks is in the order in which the worker's predictions were last touched, deeper first, so
//! that the worker's capacity is enforced in constant time a block.

use super::PrefixIndex;
use super::lower::LOWER;
use super::node::{Holder, List, NIL, Span};
use crate::ids::Slot;

impl PrefixIndex {
    /// What `worker` holds of the run of `id`.
    pub(super) fn span(&self, id: u32, worker: u32) -> Span {
        self.slab[id].span(worker)
    }

    /// Sets what `worker` holds of the run of `id`; `touch` makes its predicted blocks the newest.
    ///
    /// Gives false, and changes nothing, where the budget has no room for one more holder. `guard` is what
    /// [`PrefixIndex::fit`] must leave alone.
    pub(super) fn put(&mut self, id: u32, worker: u32, span: Span, touch: bool, guard: u32) -> bool {
        let old = self.span(id, worker);
        if old == span && !touch {
            return true;
        }
        if old.held == 0 && !self.fit(guard, |index| index.holder_growth(id)) {
            return false;
        }
        self.count(worker, old, span);
        let relink = touch || old.list() != span.list();
        if relink && let Some(list) = old.list() {
            self.unlink(id, worker, list);
        }
        self.write(id, worker, span);
        if relink && let Some(list) = span.list() {
            let newest = self.ends(worker, list)[1];
            self.link_after(newest, id, worker, list);
        }
        true
    }

    /// Bytes that one more holder in `id` allocates.
    fn holder_growth(&self, id: u32) -> usize {
        let holders = &self.slab[id].holders;
        if holders.len() < holders.capacity() { 0 } else { (1 + holders.len() / 4) * size_of::<Holder>() }
    }

    fn count(&mut self, worker: u32, old: Span, new: Span) {
        if let Some(worker) = self.worker_mut(Slot(worker)) {
            worker.confirmed = worker.confirmed + new.confirmed - old.confirmed;
            worker.predicted = worker.predicted + new.predicted() - old.predicted();
        }
        let confirmed =
            if worker & LOWER == 0 { &mut self.counters.confirmed } else { &mut self.counters.lower };
        *confirmed = *confirmed + new.confirmed - old.confirmed;
        self.counters.predicted = self.counters.predicted + new.predicted() - old.predicted();
    }

    /// Writes the span into the holders, without the lists.
    fn write(&mut self, id: u32, worker: u32, span: Span) {
        let node = &mut self.slab[id];
        let before = node.holders.capacity();
        match (node.position(worker), span.held) {
            (Ok(at), 0) => {
                node.holders.remove(at);
                if node.holders.capacity() > 2 * node.holders.len() + 2 || node.holders.is_empty() {
                    node.holders.shrink_to_fit();
                }
            }
            (Ok(at), _) => node.holders[at].set(span),
            (Err(_), 0) => {}
            (Err(at), _) => {
                if node.holders.len() == before {
                    node.holders.reserve_exact(1 + before / 4);
                }
                node.holders.insert(at, Holder::new(worker, span));
            }
        }
        self.heap = self.heap + node.holders.capacity() * size_of::<Holder>() - before * size_of::<Holder>();
    }

    /// The oldest and the newest entry of a list.
    pub(super) fn ends(&self, worker: u32, list: List) -> [u32; 2] {
        self.worker(Slot(worker)).map_or([NIL; 2], |worker| worker.lists[list as usize])
    }

    /// Takes an entry out of its list; its own links stay as they were.
    pub(super) fn unlink(&mut self, id: u32, worker: u32, list: List) {
        let Some((prev, next)) = self.links(id, worker) else { return };
        self.set_next(prev, worker, list, next);
        self.set_prev(next, worker, list, prev);
    }

    /// Puts an entry that is in no list after `prev`, or first.
    pub(super) fn link_after(&mut self, prev: u32, id: u32, worker: u32, list: List) {
        let next = match prev {
            NIL => self.ends(worker, list)[0],
            prev => self.links(prev, worker).map_or(NIL, |(_, next)| next),
        };
        if let Some(holder) = self.holder_mut(id, worker) {
            (holder.prev, holder.next) = (prev, next);
        }
        self.set_next(prev, worker, list, id);
        self.set_prev(next, worker, list, id);
    }

    /// The neighbours of an entry.
    pub(super) fn links(&self, id: u32, worker: u32) -> Option<(u32, u32)> {
        let node = &self.slab[id];
        node.position(worker).ok().map(|at| (node.holders[at].prev, node.holders[at].next))
    }

    fn set_next(&mut self, id: u32, worker: u32, list: List, next: u32) {
        if id == NIL {
            self.set_end(worker, list, 0, next);
        } else if let Some(holder) = self.holder_mut(id, worker) {
            holder.next = next;
        }
    }

    fn set_prev(&mut self, id: u32, worker: u32, list: List, prev: u32) {
        if id == NIL {
            self.set_end(worker, list, 1, prev);
        } else if let Some(holder) = self.holder_mut(id, worker) {
            holder.prev = prev;
        }
    }

    fn set_end(&mut self, worker: u32, list: List, end: usize, id: u32) {
        if let Some(worker) = self.worker_mut(Slot(worker)) {
            worker.lists[list as usize][end] = id;
        }
    }

    fn holder_mut(&mut self, id: u32, worker: u32) -> Option<&mut Holder> {
        let node = &mut self.slab[id];
        node.position(worker).ok().map(|at| &mut node.holders[at])
    }
}
