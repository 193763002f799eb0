//! Taking back what a worker holds, a few blocks at a time.
//!
//! Between two pieces the index is whole: others look at it and add to it. What is predicted meanwhile for the first time
//! stays, as it is of requests that were sent after the news. Old predictions are told from it by their number, oldest
//! first: where a block of theirs is predicted or used again meanwhile, as many new ones may go in its place.

use super::PrefixIndex;
use super::lower::lower;
use super::node::{List, NIL, Span};
use crate::ids::Slot;
use crate::time::Time;

/// What of a worker's blocks is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forget {
    /// Everything: it restarted, or does not answer.
    Everything,
    /// What it holds in lower tiers.
    LowerTiers,
    /// What events said, as some of them were lost: what is confirmed counts as predicted, up to the worker's
    /// capacity, and lower tiers hold nothing.
    Events,
}

/// How far that has come.
#[derive(Clone, Copy, Debug)]
pub struct Forgetting {
    what: Forget,
    /// Predicted blocks that are still to be dropped.
    predicted: usize,
    /// The entry with predictions that was looked at last for confirmed blocks, from the newest to the oldest.
    at: u32,
    /// All of them were.
    walked: bool,
}

impl Forgetting {
    /// What is taken back.
    pub fn what(&self) -> Forget {
        self.what
    }
}

impl PrefixIndex {
    /// Begins to take back what is held now; [`PrefixIndex::forget_some`] goes on.
    pub fn forget(&mut self, slot: Slot, what: Forget) -> Forgetting {
        if what == Forget::Everything
            && let Some(worker) = self.worker_mut(slot)
        {
            worker.ballast = Default::default();
        }
        let predicted = self.worker(slot).map_or(0, |worker| worker.predicted);
        Forgetting { what, predicted, at: NIL, walked: false }
    }

    /// Drops at most `blocks` blocks, or looks at so many entries; says whether that was all.
    ///
    /// What counts as predicted from here on does so until `expires`.
    pub fn forget_some(
        &mut self,
        slot: Slot,
        forgetting: &mut Forgetting,
        now: Time,
        expires: Time,
        blocks: usize,
    ) -> bool {
        self.now = self.now.max(now);
        let mut left = blocks;
        if forgetting.what == Forget::Everything {
            let predicted = left.min(forgetting.predicted);
            let dropped = self.drop_oldest(slot, List::Predicted, predicted);
            // Where fewer are left than there were, some are gone without this.
            forgetting.predicted = if dropped < predicted { 0 } else { forgetting.predicted - dropped };
            left -= dropped;
            left -= self.drop_oldest(slot, List::Confirmed, left);
        }
        if forgetting.what != Forget::LowerTiers {
            // What is left of everything has predictions that came meanwhile, of the same prompts.
            left = self.demote(slot, forgetting, expires, left);
        }
        left -= self.drop_oldest(lower(slot), List::Confirmed, left);
        left > 0
    }

    /// Drops up to `blocks` blocks of the oldest entries of a list; gives how many.
    fn drop_oldest(&mut self, slot: Slot, list: List, blocks: usize) -> usize {
        let mut left = blocks;
        while left > 0
            && let Some(id) = self.oldest_of(slot.0, list)
        {
            let span = self.span(id, slot.0);
            let from = if list == List::Predicted { span.predicted() } else { span.held };
            let dropped = from.min(left);
            self.put(id, slot.0, span.without(dropped), false, NIL);
            self.tidy(id);
            left -= dropped;
        }
        blocks - left
    }

    /// Takes what is confirmed for predicted, least recently used first, as predictions are kept; gives what is left of
    /// `steps`.
    fn demote(&mut self, slot: Slot, forgetting: &mut Forgetting, expires: Time, steps: usize) -> usize {
        let mut left = steps;
        while left > 0 && self.worker(slot).is_some_and(|worker| worker.confirmed > 0) {
            let step = match self.next_confirmed(slot.0, forgetting) {
                Some(id) => self.demote_entry(id, slot, forgetting, expires, left),
                None => 1,
            };
            left -= step;
        }
        left
    }

    /// An entry with confirmed blocks; none where this was a look at one without. First come those with predictions,
    /// and then the others.
    fn next_confirmed(&self, worker: u32, forgetting: &mut Forgetting) -> Option<u32> {
        if forgetting.walked {
            let oldest = self.oldest_of(worker, List::Confirmed);
            if oldest.is_none() {
                // What is left has got predictions meanwhile.
                (forgetting.walked, forgetting.at) = (false, NIL);
            }
            return oldest;
        }
        let at = forgetting.at;
        let listed = self.slab.contains(at) && self.span(at, worker).list() == Some(List::Predicted);
        if !listed {
            forgetting.at = self.ends(worker, List::Predicted)[1];
        } else if self.span(at, worker).confirmed == 0 {
            forgetting.at = self.links(at, worker).map_or(NIL, |(prev, _)| prev);
        }
        let at = forgetting.at;
        forgetting.walked = at == NIL;
        (at != NIL && self.span(at, worker).confirmed > 0).then_some(at)
    }

    /// Makes room for the confirmed blocks of an entry among the predictions, or, where there is room, takes them for
    /// predicted; gives how many of `steps` that took.
    fn demote_entry(
        &mut self,
        id: u32,
        slot: Slot,
        forgetting: &mut Forgetting,
        expires: Time,
        steps: usize,
    ) -> usize {
        let span = self.span(id, slot.0);
        if span.predicted() > 0 && span.expires <= self.now {
            // The entry leaves the list: the walk goes on from the one after it.
            forgetting.at = self.links(id, slot.0).map_or(NIL, |(_, next)| next);
            self.keep_confirmed(id, slot.0);
            return 1;
        }
        let Some(excess) = self.excess(slot.0, span.confirmed) else {
            let (held, expires) = (span.held, span.expires.max(expires));
            self.put(id, slot.0, Span::new(0, held, expires), span.predicted() == 0, NIL);
            return 1;
        };
        match self.make_room(slot.0, span.confirmed, steps) {
            // There is nothing older: of this entry the last blocks go.
            0 => {
                let dropped = excess.min(steps);
                self.put(id, slot.0, span.without(dropped), false, NIL);
                self.count_dropped(dropped);
                self.tidy(id);
                dropped
            }
            dropped => dropped,
        }
    }
}
