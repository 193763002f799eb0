//! The slow, obvious index: a map from worker and prefix to how it is held.

use std::collections::BTreeMap;

use crate::block::BlockHash;
use crate::prefix::Forget;
use crate::prefix::lower::LOWER;

/// A prefix: one symbol a block.
pub(super) type Path = Vec<u8>;

/// How a worker holds one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Confirmed,
    /// `touched` numbers the prediction that touched the block last.
    Predicted {
        expires: u64,
        touched: usize,
    },
}

/// A deliberate mistake in the reference, which the comparison must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A removal takes the blocks after it along.
    RemovalTakesDescendants,
    /// A prediction's lifetime is set, not prolonged.
    LifetimeIsSet,
    /// The capacity takes the first blocks before the last.
    CapacityTakesFirstBlocks,
    /// A later prediction does not make blocks newer.
    PredictionDoesNotTouch,
    /// A prediction makes confirmed blocks predicted.
    PredictionUnconfirms,
    /// What lower tiers hold counts from the prompt's start alone.
    LowerStartsAtTheRoot,
    /// Where events are lost, first blocks stay confirmed.
    DoubtSparesFirstBlocks,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Reference {
    pub(super) held: BTreeMap<(u32, Path), State>,
    pub(super) workers: BTreeMap<u32, Option<u32>>,
    pub(super) fault: Option<Fault>,
    pub(super) predictions: usize,
    /// By worker, blocks that no prompt names: until when they live, and how many, oldest first.
    pub(super) ballast: BTreeMap<u32, Vec<(u64, usize)>>,
}

/// The chained hash of a prefix.
pub(super) fn hash(path: &[u8]) -> BlockHash {
    BlockHash(path.iter().fold(7, |hash: u64, &symbol| {
        (hash ^ u64::from(symbol))
            .wrapping_add(0x9E37_79B9)
            .wrapping_mul(0xD6E8_FEB8_6659_FD93)
            .rotate_left(29)
    }))
}

/// The hashes of all blocks of a prompt.
pub(super) fn hashes(path: &[u8]) -> Vec<BlockHash> {
    (1..=path.len()).map(|len| hash(&path[..len])).collect()
}

impl Reference {
    pub(super) fn get(&self, worker: u32, path: &[u8]) -> Option<State> {
        self.held.get(&(worker, path.to_vec())).copied()
    }

    /// Some worker holds the block or one after it.
    pub(super) fn knows(&self, path: &[u8]) -> bool {
        self.held.keys().any(|(_, held)| held.starts_with(path))
    }

    /// Leading blocks that count, and that are confirmed.
    pub(super) fn overlap(&self, worker: u32, prompt: &[u8], now: u64) -> (u32, u32) {
        let leading = |counts: &dyn Fn(State) -> bool| {
            (1..=prompt.len()).take_while(|&len| self.get(worker, &prompt[..len]).is_some_and(counts)).count()
                as u32
        };
        let counts = |state| match state {
            State::Confirmed => true,
            State::Predicted { expires, .. } => expires > now,
        };
        (leading(&counts), leading(&|state| state == State::Confirmed))
    }

    /// Blocks after the overlap that a lower tier has, one after the other.
    pub(super) fn lower(&self, worker: u32, prompt: &[u8], now: u64) -> u32 {
        let overlap = self.overlap(worker, prompt, now).0;
        let start = if self.fault == Some(Fault::LowerStartsAtTheRoot) { 0 } else { overlap };
        let lower = worker | LOWER;
        let held = |len: &usize| self.get(lower, &prompt[..*len]).is_some();
        let reach = start + (start as usize + 1..=prompt.len()).take_while(held).count() as u32;
        reach.saturating_sub(overlap)
    }

    pub(super) fn count(&self, worker: u32) -> (usize, usize) {
        let states = self.held.iter().filter(|((holder, _), _)| *holder == worker);
        let confirmed = states.clone().filter(|(_, state)| **state == State::Confirmed).count();
        (confirmed, states.count() - confirmed)
    }

    pub(super) fn clear(&mut self, worker: u32) {
        self.held.retain(|(holder, _), _| *holder != worker);
        self.ballast.remove(&worker);
    }

    /// Clears the device and the lower tier.
    pub(super) fn clear_all(&mut self, worker: u32) {
        self.clear(worker);
        self.clear(worker | LOWER);
    }

    /// Takes back what is held now; what was confirmed is predicted until `lives_until` where events were lost.
    pub(super) fn forget(&mut self, worker: u32, what: Forget, lives_until: u64) {
        match what {
            Forget::Everything => self.clear_all(worker),
            Forget::LowerTiers => self.clear(worker | LOWER),
            Forget::Events => {
                self.clear(worker | LOWER);
                let spared = self.fault == Some(Fault::DoubtSparesFirstBlocks);
                for ((holder, path), state) in &mut self.held {
                    if *holder == worker && *state == State::Confirmed && !(spared && path.len() == 1) {
                        *state = State::Predicted { expires: lives_until, touched: self.predictions };
                    }
                }
            }
        }
    }

    /// The lower tier holds the last `blocks` blocks of a path.
    pub(super) fn hold_lower(&mut self, worker: u32, path: &[u8], blocks: usize) {
        for len in path.len() - blocks + 1..=path.len() {
            self.held.insert((worker | LOWER, path[..len].to_vec()), State::Confirmed);
        }
    }

    pub(super) fn drop_predictions(&mut self, worker: u32) {
        self.held.retain(|(holder, _), state| *holder != worker || *state == State::Confirmed);
    }

    pub(super) fn expire(&mut self, now: u64) {
        self.held.retain(|_, state| !matches!(*state, State::Predicted { expires, .. } if expires <= now));
    }

    pub(super) fn predict(&mut self, worker: u32, prompt: &[u8], now: u64, expires: u64) {
        let Some(&capacity) = self.workers.get(&worker) else { return };
        if expires <= now {
            return;
        }
        self.predictions += 1;
        let mut left = capacity.unwrap_or(u32::MAX);
        for len in 1..=prompt.len() {
            let old = self.get(worker, &prompt[..len]);
            let mut state = State::Predicted { expires, touched: self.predictions };
            match old {
                Some(State::Confirmed) if self.fault != Some(Fault::PredictionUnconfirms) => continue,
                Some(State::Predicted { expires: before, touched: earlier }) => {
                    let lifetime =
                        if self.fault == Some(Fault::LifetimeIsSet) { expires } else { before.max(expires) };
                    let kept = self.fault == Some(Fault::PredictionDoesNotTouch);
                    let touched = if kept { earlier } else { self.predictions };
                    state = State::Predicted { expires: lifetime, touched };
                }
                _ => {}
            }
            if left == 0 {
                break;
            }
            left -= 1;
            self.held.insert((worker, prompt[..len].to_vec()), state);
        }
        self.enforce_capacity(worker);
    }

    pub(super) fn enforce_capacity(&mut self, worker: u32) {
        let Some(Some(capacity)) = self.workers.get(&worker).copied() else { return };
        while self.count(worker).1 + self.occupied(worker) > capacity as usize {
            let oldest = self.oldest(worker);
            let expires = oldest.as_ref().map(|(expires, _)| *expires);
            let ballast = self.ballast.entry(worker).or_default();
            if ballast.first().is_some_and(|(until, _)| expires.is_none_or(|expires| *until <= expires)) {
                ballast[0].1 -= 1;
                ballast.retain(|(_, blocks)| *blocks > 0);
            } else if let Some((_, key)) = oldest {
                self.held.remove(&key);
            }
        }
    }

    /// The block that the capacity takes first, and until when it is predicted.
    fn oldest(&self, worker: u32) -> Option<(u64, (u32, Path))> {
        let age = |(key, state): (&(u32, Path), &State)| match *state {
            State::Predicted { touched, expires } if key.0 == worker => {
                Some((touched, key.1.len(), expires, key.clone()))
            }
            _ => None,
        };
        let first = self.fault == Some(Fault::CapacityTakesFirstBlocks);
        let order = |&(touched, depth, ..): &(usize, usize, u64, _)| {
            (touched, if first { depth } else { 99 - depth })
        };
        let oldest = self.held.iter().filter_map(age).min_by_key(order);
        oldest.map(|(_, _, expires, key)| (expires, key))
    }

    pub(super) fn occupied(&self, worker: u32) -> usize {
        self.ballast.get(&worker).map_or(0, |ballast| ballast.iter().map(|(_, blocks)| blocks).sum())
    }

    pub(super) fn occupy(&mut self, worker: u32, blocks: usize, expires: u64) {
        let capacity = self.workers.get(&worker).copied().flatten().unwrap_or(0);
        let blocks = blocks.min(capacity as usize);
        if blocks > 0 {
            self.ballast.entry(worker).or_default().push((expires, blocks));
            self.enforce_capacity(worker);
        }
    }

    pub(super) fn drop_until(&mut self, worker: u32, until: u64) {
        while let Some((expires, key)) = self.oldest(worker)
            && expires <= until
        {
            self.held.remove(&key);
        }
        let ballast = self.ballast.entry(worker).or_default();
        while ballast.first().is_some_and(|(expires, _)| *expires <= until) {
            ballast.remove(0);
        }
    }

    pub(super) fn refresh(&mut self, worker: u32, path: &[u8], lives_until: u64) {
        self.predictions += 1;
        for len in 1..=path.len() {
            if let Some(State::Predicted { expires, touched }) =
                self.held.get_mut(&(worker, path[..len].to_vec()))
            {
                *expires = lives_until.max(*expires);
                *touched = self.predictions;
            }
        }
    }

    pub(super) fn store(&mut self, worker: u32, path: &[u8], from: usize) {
        if self.workers.contains_key(&worker) {
            for len in from + 1..=path.len() {
                self.held.insert((worker, path[..len].to_vec()), State::Confirmed);
            }
        }
    }

    pub(super) fn remove(&mut self, worker: u32, path: &[u8]) -> bool {
        let removed = self.held.remove(&(worker, path.to_vec())).is_some();
        if removed && self.fault == Some(Fault::RemovalTakesDescendants) {
            self.held.retain(|(holder, held), _| *holder != worker || !held.starts_with(path));
        }
        removed
    }
}
