//! Forgetting in pieces, with operations between them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

use super::WORKERS;
use super::operation::{Operation, operation};
use super::pair::{Pair, check, held};
use super::reference::{Fault, Path, State, hashes};
use crate::ids::Slot;
use crate::prefix::{Forget, Overlaps};
use crate::time::Time;

const SLOT: Slot = Slot(0);
/// Until when that is predicted which was confirmed: longer than anything else.
const EXPIRES: u64 = 1_000_000;

fn operations(most: usize) -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(operation(false), 0..most)
}

fn what() -> impl Strategy<Value = Forget> {
    prop_oneof![1 => Just(Forget::Everything), 1 => Just(Forget::LowerTiers), 3 => Just(Forget::Events)]
}

/// Whether it may happen meanwhile: what one worker's events say is applied by whoever forgets, and so comes after.
/// What goes first of predictions depends on the order of all confirmed blocks, which the reference does not know.
fn may_come_between(operation: &Operation) -> bool {
    use Operation::*;
    match operation {
        Store { worker, .. }
        | StoreLower { worker, .. }
        | KeepLower { worker, .. }
        | Remove { worker, .. }
        | RemoveTail { worker, .. }
        | RemoveLower { worker, .. }
        | DropPredictions { worker }
        | DropUntil { worker, .. } => *worker != SLOT.0,
        _ => true,
    }
}

/// Takes over what the reference leaves open: predictions may go that have expired, or came after everything was to
/// be forgotten; those that share a node with what was confirmed live as long as that, and those that came in time
/// for older ones of the same blocks as long as these.
fn settle(pair: &mut Pair, what: Forget) {
    let (index, now, everything) = (&pair.index, pair.now, what == Forget::Everything);
    pair.reference.held.retain(|(worker, path), state| {
        let State::Predicted { expires, .. } = state else { return true };
        match held(index, *worker, path).map(|(_, longer)| longer.as_nanos()) {
            _ if *worker != SLOT.0 => true,
            None => !everything && *expires > now,
            Some(longer) => {
                if longer == EXPIRES || (everything && longer > *expires) {
                    *expires = longer;
                }
                true
            }
        }
    });
}

/// What is used meanwhile is as new as what is predicted meanwhile: it may stay, too.
fn keep_used(pair: &mut Pair, operation: &Operation) {
    let Operation::Refresh { worker, ref path, .. } = *operation else { return };
    for prefix in (1..=path.len()).map(|len| &path[..len]) {
        // What is confirmed before it is taken for predicted with it.
        if let Some((_, expires)) = held(&pair.index, worker, prefix) {
            let state = State::Predicted { expires: expires.as_nanos(), touched: 0 };
            pair.reference.held.entry((worker, prefix.to_vec())).or_insert(state);
        }
    }
}

fn play(before: &[Operation], between: &[Operation], what: Forget, at_once: usize, fault: Option<Fault>) {
    let mut pair = Pair::new(1 << 20, [None; 3], fault);
    before.iter().for_each(|operation| pair.apply(operation));
    let mut forgetting = pair.index.forget(SLOT, what);
    pair.reference.forget(SLOT.0, what, EXPIRES);
    let mut between = between.iter().filter(|operation| may_come_between(operation));
    loop {
        let (now, pairs) = (pair.time(0), pair.index.stats().pairs);
        let done = pair.index.forget_some(SLOT, &mut forgetting, now, Time::from_nanos(EXPIRES), at_once);
        check(pair.index.check());
        assert!(pairs - pair.index.stats().pairs <= at_once + expired(&pair), "too many blocks at once");
        if done {
            break;
        }
        // What went with this piece is gone before something of the same blocks comes anew.
        settle(&mut pair, what);
        if let Some(operation) = between.next() {
            if what == Forget::Everything {
                keep_used(&mut pair, operation);
            }
            pair.apply(operation);
        }
        settle(&mut pair, what);
        if what != Forget::Everything {
            for (worker, path) in pair.reference.held.keys() {
                assert!(held(&pair.index, *worker, path).is_some(), "{worker} holds {path:?} meanwhile");
            }
        }
    }
    settle(&mut pair, what);
    pair.compare();
    pair.index.expire(pair.time(0), usize::MAX);
    check(pair.index.check_trimmed());
}

/// Predictions that count for nothing: they go without being counted.
fn expired(pair: &Pair) -> usize {
    let gone = |state: &&State| matches!(state, State::Predicted { expires, .. } if *expires <= pair.now);
    pair.reference.held.values().filter(gone).count()
}

/// What one worker holds, and until when it is predicted.
fn all(pair: &Pair) -> BTreeMap<Path, (bool, Time)> {
    let paths = pair.prompts.iter().flat_map(|prompt| (1..=prompt.len()).map(|len| prompt[..len].to_vec()));
    paths.filter_map(|path| Some((path.clone(), held(&pair.index, SLOT.0, &path)?))).collect()
}

proptest! {
    #![proptest_config(Config { cases: 500, ..Config::default() })]

    #[test]
    fn what_is_forgotten_bit_by_bit_is_gone_whatever_comes_between(
        before in operations(80),
        between in operations(40),
        what in what(),
        at_once in 1_usize..6,
    ) {
        play(&before, &between, what, at_once, None);
    }

    #[test]
    fn doubt_keeps_overlaps_and_confirms_nothing(before in operations(80), at_once in 1_usize..6) {
        let mut pair = Pair::new(1 << 20, [None; 3], None);
        before.iter().for_each(|operation| pair.apply(operation));
        let (now, expires) = (pair.time(0), Time::from_nanos(EXPIRES));
        let overlaps = |pair: &Pair| {
            let of = |prompt: &Path| {
                let mut overlaps = Overlaps::new();
                pair.index.lookup(&hashes(prompt), now, &mut overlaps);
                (0..WORKERS).map(|worker| overlaps.get(Slot(worker)).blocks).collect::<Vec<_>>()
            };
            pair.prompts.iter().map(of).collect::<Vec<_>>()
        };
        let before = overlaps(&pair);
        for slot in (0..WORKERS).map(Slot) {
            let mut forgetting = pair.index.forget(slot, Forget::Events);
            while !pair.index.forget_some(slot, &mut forgetting, now, expires, at_once) {
                prop_assert_eq!(overlaps(&pair), before.clone());
            }
        }
        prop_assert_eq!(overlaps(&pair), before);
        prop_assert_eq!(pair.index.stats().confirmed, 0);
        pair.index.expire(expires, usize::MAX);
        prop_assert_eq!(pair.index.stats().predicted, 0);
    }

    /// In pieces of any size the same is kept: as much as has room, and never more.
    #[test]
    fn doubt_keeps_what_was_used_last(
        capacity in 0_u32..40,
        before in operations(80),
        at_once in 1_usize..6,
    ) {
        let [mut pieces, mut whole] = [(); 2].map(|()| Pair::new(1 << 20, [None; 3], None));
        for pair in [&mut pieces, &mut whole] {
            before.iter().for_each(|operation| pair.apply(operation));
            pair.index.expire(pair.time(0), usize::MAX);
            pair.index.set_capacity(SLOT, Some(capacity));
        }
        let known = whole.reference.workers.contains_key(&SLOT.0);
        let (now, expires) = (whole.time(0), Time::from_nanos(EXPIRES));
        let (confirmed, predicted) = whole.index.blocks(SLOT);
        for (pair, at_once) in [(&mut pieces, at_once), (&mut whole, usize::MAX)] {
            let mut forgetting = pair.index.forget(SLOT, Forget::Events);
            while !pair.index.forget_some(SLOT, &mut forgetting, now, expires, at_once) {
                check(pair.index.check());
            }
            check(pair.index.check());
        }
        prop_assert_eq!(all(&pieces), all(&whole));
        prop_assert_eq!(pieces.index.occupied(SLOT), whole.index.occupied(SLOT));
        let (left, kept) = whole.index.blocks(SLOT);
        prop_assert_eq!(left, 0);
        prop_assert!(!known || kept + whole.index.occupied(SLOT) <= u64::from(capacity));
        prop_assert!(kept >= (confirmed + predicted).min(u64::from(capacity)) - whole.index.occupied(SLOT).min(kept));
    }
}

/// The planted mistake must be found by the comparison that finds none without it.
#[test]
fn a_block_that_stays_confirmed_is_found() {
    let config = Config { cases: 400, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&operations(80), |before| {
        play(&before, &[], Forget::Events, 3, Some(Fault::DoubtSparesFirstBlocks));
        Ok(())
    });
    assert!(matches!(outcome, Err(TestError::Fail(..))), "it is not found");
}

/// Of two prompts the one that was used last stays, though it was stored first, and its end goes before its beginning.
#[test]
fn the_order_of_use_is_the_order_of_doubt() {
    let mut pair = Pair::new(1 << 20, [None; 3], None);
    let (first, second): (Path, Path) = (vec![0; 5], vec![1; 5]);
    for path in [&first, &second] {
        pair.apply(&Operation::Store { worker: 0, path: path.clone(), from: 0 });
    }
    pair.index.used(SLOT, hashes(&first)[4], 0);
    pair.index.set_capacity(SLOT, Some(7));
    let mut forgetting = pair.index.forget(SLOT, Forget::Events);
    while !pair.index.forget_some(SLOT, &mut forgetting, Time::ZERO, Time::from_nanos(EXPIRES), 2) {}
    let mut overlaps = Overlaps::new();
    let mut overlap = |path: &Path| {
        pair.index.lookup(&hashes(path), Time::ZERO, &mut overlaps);
        overlaps.get(SLOT).blocks
    };
    assert_eq!((overlap(&first), overlap(&second)), (5, 2));
}
