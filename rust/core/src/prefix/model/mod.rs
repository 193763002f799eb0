//! Random operations on the index and on the reference, compared after each.

mod forget;
mod operation;
mod pair;
mod reference;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

use super::IndexStats;
use operation::{Operation, operation};
use pair::{Pair, check};
use reference::{Fault, hash};

const WORKERS: u32 = 4;

fn play(operations: &[Operation], fault: Option<Fault>) {
    let mut pair = Pair::new(1 << 20, [Some(12), Some(30), None], fault);
    for operation in operations {
        pair.apply(operation);
        pair.compare();
        check(pair.index.check_trimmed());
        for path in pair.prompts.last().into_iter().flat_map(|path| (1..path.len()).map(|len| &path[..len])) {
            assert_eq!(
                pair.index.find(hash(path)).is_some(),
                pair.reference.knows(path),
                "{path:?} is known"
            );
        }
    }
    // Each round merges what the one before made neighbours.
    let mut nodes = usize::MAX;
    while pair.index.expire(pair.time(0), usize::MAX) > 0 || pair.index.stats().nodes < nodes {
        nodes = pair.index.stats().nodes;
    }
    check(pair.index.check_merged());
}

proptest! {
    #![proptest_config(Config { cases: 500, ..Config::default() })]

    #[test]
    fn equals_the_reference(operations in prop::collection::vec(operation(true), 1..160)) {
        play(&operations, None);
    }

    #[test]
    fn a_small_budget_only_forgets(
        max_bytes in 4_500_usize..20_000,
        operations in prop::collection::vec(operation(false), 1..160),
    ) {
        let mut pair = Pair::new(max_bytes, [None; 3], None);
        for operation in &operations {
            pair.now += 1;
            let (before, stats) = (pair.leaves(), pair.index.stats());
            pair.apply(operation);
            // An index with room forgets nothing; one without may have missed what the reference learnt.
            let given_up = |stats: IndexStats| (stats.evicted_blocks, stats.cut_blocks);
            if pair.index.room() < 1000 || given_up(pair.index.stats()) != given_up(stats) {
                pair.forget_evicted();
            }
            pair.compare();
            pair.compare_order(&before, stats, operation);
        }
        pair.index.expire(pair.time(0), usize::MAX);
        check(pair.index.check_trimmed());
    }
}

/// Each planted mistake must be found by the comparison that finds none without it.
#[test]
fn a_mistake_in_the_reference_is_found() {
    for fault in [
        Fault::RemovalTakesDescendants,
        Fault::LifetimeIsSet,
        Fault::CapacityTakesFirstBlocks,
        Fault::PredictionDoesNotTouch,
        Fault::PredictionUnconfirms,
        Fault::LowerStartsAtTheRoot,
    ] {
        let config =
            Config { cases: 400, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
        let operations = prop::collection::vec(operation(true), 1..160);
        let outcome = TestRunner::new(config).run(&operations, |operations| {
            play(&operations, Some(fault));
            Ok(())
        });
        assert!(matches!(outcome, Err(TestError::Fail(..))), "{fault:?} is not found");
    }
}
