//! Marking a path: from its deepest node up, so that deeper blocks are older.

use super::PrefixIndex;
use super::node::Span;
use super::walk::Reach;
use crate::time::Time;

/// What a path is marked as.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    Confirmed,
    /// Until then.
    Predicted(Time),
    /// Until then, where it is predicted already.
    Refreshed(Time),
}

impl PrefixIndex {
    /// Marks the last `reach.depth` blocks of a path as held by `worker`; gives the deepest node then.
    ///
    /// Where the budget has no room for one more holder or node, a part stays as it was.
    pub(super) fn mark(&mut self, reach: Reach, worker: u32, mark: Mark) -> u32 {
        let mut deepest = reach.at;
        if reach.depth == 0 {
            return deepest;
        }
        let (mut id, mut to, mut left) = (reach.at, reach.within, reach.depth);
        loop {
            let from = to - left.min(to);
            left -= to - from;
            let (upper, lower) = match mark {
                Mark::Confirmed => self.confirm(id, worker, from, to, deepest),
                Mark::Refreshed(expires) => {
                    let held = self.span(id, worker).held;
                    self.assume(id, worker, to.min(held), expires, deepest)
                }
                Mark::Predicted(expires) => self.assume(id, worker, to, expires, deepest),
            };
            if id == deepest {
                deepest = lower;
            }
            if left == 0 {
                if matches!(mark, Mark::Confirmed) {
                    // Who holds a block uses all before it, of which the event that stores it says nothing.
                    self.use_above(upper, worker);
                }
                return deepest;
            }
            match self.parent_of(upper) {
                Some(parent) => (id, to) = (parent, self.slab[parent].run.len()),
                None => return deepest,
            }
        }
    }

    /// Confirms blocks `from..to` of a run; gives the nodes at the top and the end of what was the run.
    fn confirm(&mut self, id: u32, worker: u32, from: usize, to: usize, guard: u32) -> (u32, u32) {
        let span = self.span(id, worker);
        if to <= span.confirmed {
            self.use_entry(id, worker);
            return (id, id);
        }
        if from <= span.confirmed {
            self.put(id, worker, Span::new(to, span.held.max(to), span.expires), false, guard);
            self.use_entry(id, worker);
            return (id, id);
        }
        // Something before `from` is not confirmed: the run is cut there.
        let Some((upper, lower)) = self.split(id, from, guard) else { return (id, id) };
        let guard = if id == guard { lower } else { guard };
        let (to, span) = (to - from, self.span(lower, worker));
        self.put(lower, worker, Span::new(to, span.held.max(to), span.expires), false, guard);
        self.use_entry(lower, worker);
        (upper, lower)
    }

    /// Predicts the first `to` blocks of a run, those confirmed aside, and touches them; gives the nodes at
    /// the top and the end of what is on the path.
    fn assume(&mut self, id: u32, worker: u32, to: usize, expires: Time, guard: u32) -> (u32, u32) {
        let old = self.span(id, worker);
        if to <= old.confirmed {
            let upper = self.use_until(id, worker, to, guard);
            return (upper, upper);
        }
        if to < old.held {
            // The rest of the run keeps its lifetime and its place among the worker's predictions. Without
            // room for a split it is forgotten.
            let upper = self.split(id, to, guard).map_or(id, |(upper, _)| upper);
            let guard = if id == guard { upper } else { guard };
            self.put(upper, worker, Span::new(old.confirmed, to, old.expires.max(expires)), true, guard);
            return (upper, upper);
        }
        if old.expires > expires && to > old.held {
            // What is there lives longer than what is added.
            let Some((upper, lower)) = self.split(id, old.held, guard) else {
                self.put(id, worker, old, true, guard);
                return (id, id);
            };
            let guard = if id == guard { lower } else { guard };
            self.put(lower, worker, Span::new(0, to - old.held, expires), true, guard);
            self.put(upper, worker, old, true, guard);
            return (upper, lower);
        }
        self.put(id, worker, Span::new(old.confirmed, to, old.expires.max(expires)), true, guard);
        (id, id)
    }
}
