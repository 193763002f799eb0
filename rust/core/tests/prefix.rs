//! What the prefix index promises, by example and at full size; `prefix_model` inside the crate compares it
//! with a reference after random operations.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use warmroute_core::block::BlockHash;
use warmroute_core::ids::Slot;
use warmroute_core::prefix::{Overlap, Overlaps, PrefixIndex, UnknownParent};
use warmroute_core::time::Time;

const A: Slot = Slot(0);
const B: Slot = Slot(1);
const NEVER: Time = Time::MAX;

/// The first `len` blocks of a prompt; prompts with one `seed` share the first `shared` blocks.
fn prompt(seed: u64, shared: usize, own: u64, len: usize) -> Vec<BlockHash> {
    let mut hash = seed.wrapping_mul(0xD6E8_FEB8_6659_FD93) + 1;
    let next = |at: usize| {
        hash = (hash ^ if at < shared { 1 } else { own }).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        hash ^= hash >> 32;
        BlockHash(hash)
    };
    (0..len).map(next).collect()
}

fn alone(seed: u64, len: usize) -> Vec<BlockHash> {
    prompt(seed, len, 0, len)
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn index(max_bytes: usize) -> PrefixIndex {
    let mut index = PrefixIndex::new(max_bytes);
    index.add_worker(A, None);
    index.add_worker(B, None);
    index
}

fn overlap(index: &PrefixIndex, slot: Slot, blocks: &[BlockHash], now: u64) -> (u32, u32) {
    let mut overlaps = Overlaps::new();
    index.lookup(blocks, at(now), &mut overlaps);
    let Overlap { blocks, confirmed, .. } = overlaps.get(slot);
    (blocks, confirmed)
}

#[test]
fn a_prediction_counts_until_it_expires_or_is_confirmed() {
    let (mut index, blocks) = (index(1 << 20), alone(1, 10));
    index.predict(A, &blocks, at(0), at(100));
    assert_eq!(overlap(&index, A, &blocks, 99), (10, 0));
    assert_eq!(overlap(&index, A, &blocks, 100), (0, 0), "expired, and not swept");
    index.store(A, None, &blocks[..4], at(50)).unwrap();
    assert_eq!(overlap(&index, A, &blocks, 99), (10, 4));
    assert_eq!(overlap(&index, A, &blocks, 100), (4, 4));
    assert_eq!(index.expire(at(100), usize::MAX), 6);
    assert_eq!((index.blocks(A), index.stats().blocks), ((4, 0), 4));
    assert_eq!(overlap(&index, B, &blocks, 0), (0, 0));
}

#[test]
fn a_prediction_is_prolonged_and_never_shortened() {
    let (mut index, blocks) = (index(1 << 20), alone(1, 10));
    index.predict(A, &blocks, at(0), at(100));
    index.predict(A, &blocks[..6], at(1), at(200));
    index.predict(A, &blocks[..3], at(2), at(50));
    assert_eq!(overlap(&index, A, &blocks, 99), (10, 0));
    assert_eq!(overlap(&index, A, &blocks, 100), (6, 0));
    assert_eq!(overlap(&index, A, &blocks, 199), (6, 0));
    assert_eq!(overlap(&index, A, &blocks, 200), (0, 0));
    index.check().unwrap();
}

#[test]
fn a_hole_hides_what_follows_until_it_is_filled() {
    let (mut index, blocks) = (index(1 << 20), alone(1, 10));
    index.store(A, None, &blocks, at(0)).unwrap();
    assert!(index.remove(A, blocks[4]));
    assert!(!index.remove(A, blocks[4]));
    assert_eq!(overlap(&index, A, &blocks, 0), (4, 4));
    assert_eq!(index.blocks(A), (9, 0));
    index.predict(A, &blocks[..5], at(0), at(9));
    assert_eq!(overlap(&index, A, &blocks, 0), (10, 4));
    index.store(A, Some(blocks[3]), &blocks[4..5], at(0)).unwrap();
    assert_eq!(overlap(&index, A, &blocks, 9), (10, 10));
    assert_eq!(index.stats().nodes, 1, "the pieces are one node again");
}

#[test]
fn a_parent_must_be_known_from_some_worker() {
    let (mut index, blocks) = (index(1 << 20), alone(1, 10));
    assert_eq!(index.store(A, Some(blocks[4]), &blocks[5..], at(0)), Err(UnknownParent(blocks[4])));
    index.store(B, None, &blocks[..5], at(0)).unwrap();
    index.store(A, Some(blocks[4]), &blocks[5..], at(0)).unwrap();
    assert_eq!(overlap(&index, A, &blocks, 0), (0, 0), "the worker does not hold the start");
    index.store(A, None, &blocks[..5], at(0)).unwrap();
    assert_eq!(overlap(&index, A, &blocks, 0), (10, 10));
}

#[test]
fn a_block_counts_only_after_the_one_before_it() {
    let (mut index, blocks) = (index(1 << 20), alone(1, 10));
    index.store(A, None, &blocks[..4], at(0)).unwrap();
    // A second branch, so that the first four are a node with children.
    index.store(A, None, &prompt(1, 4, 2, 10), at(0)).unwrap();
    index.store(A, Some(blocks[3]), &blocks[4..], at(0)).unwrap();
    let skipping = [&blocks[..2], &blocks[4..]].concat();
    assert_eq!(overlap(&index, A, &skipping, 0), (2, 2));
    assert_eq!(overlap(&index, A, &blocks[4..], 0), (0, 0));
    index.predict(B, &skipping, at(0), NEVER);
    assert_eq!(overlap(&index, B, &blocks, 0), (2, 0));
    index.check().unwrap();
}

#[test]
fn a_worker_that_leaves_or_restarts_holds_nothing() {
    let (mut index, blocks) = (index(1 << 20), alone(1, 10));
    for slot in [A, B] {
        index.store(slot, None, &blocks[..6], at(0)).unwrap();
        index.predict(slot, &blocks, at(0), NEVER);
    }
    index.drop_predictions(A);
    assert_eq!((index.blocks(A), index.blocks(B)), ((6, 0), (6, 4)));
    index.clear_worker(A);
    assert_eq!((index.blocks(A), overlap(&index, A, &blocks, 0)), ((0, 0), (0, 0)));
    index.remove_worker(B);
    index.predict(B, &blocks, at(0), NEVER);
    assert_eq!(index.store(B, None, &blocks, at(0)), Ok(()));
    assert!(!index.remove(B, blocks[0]));
    assert_eq!((index.blocks(B), index.stats().blocks, index.stats().nodes), ((0, 0), 0, 0));
    index.add_worker(B, None);
    assert_eq!(overlap(&index, B, &blocks, 0), (0, 0), "who takes the slot starts with nothing");
    index.check().unwrap();
}

#[test]
fn overlaps_are_the_last_lookups_alone() {
    let (mut big, mut small, mut overlaps) = (PrefixIndex::new(1 << 20), index(1 << 20), Overlaps::new());
    let blocks = alone(1, 10);
    for slot in (0..100).map(Slot) {
        big.add_worker(slot, None);
        big.store(slot, None, &blocks[..1 + slot.index() % 10], at(0)).unwrap();
    }
    small.store(B, None, &blocks[..3], at(0)).unwrap();
    big.lookup(&blocks, at(0), &mut overlaps);
    assert_eq!(overlaps.iter().len(), 100);
    assert!(overlaps.iter().all(|(slot, overlap)| overlap.blocks as usize == 1 + slot.index() % 10));
    small.lookup(&blocks, at(0), &mut overlaps);
    assert_eq!(overlaps.iter().collect::<Vec<_>>(), [(B, Overlap { blocks: 3, confirmed: 3, lower: 0 })]);
    small.lookup(&alone(2, 10), at(0), &mut overlaps);
    assert_eq!(overlaps.iter().len(), 0);
    assert_eq!(overlaps.get(Slot(1_000_000)), Overlap::default());
}

#[test]
fn the_capacity_keeps_the_most_recent_predictions_and_their_first_blocks() {
    let mut index = index(1 << 20);
    index.set_capacity(A, Some(100));
    for seed in 1..=4 {
        index.predict(A, &alone(seed, 30), at(seed), NEVER);
    }
    let held = |index: &PrefixIndex| {
        (1..=4).map(|seed| overlap(index, A, &alone(seed, 30), 9).0).collect::<Vec<_>>()
    };
    assert_eq!((held(&index), index.blocks(A)), (vec![10, 30, 30, 30], (0, 100)));
    index.predict(A, &alone(1, 30), at(5), NEVER);
    assert_eq!(held(&index), [30, 10, 30, 30]);
    index.set_capacity(A, Some(35));
    assert_eq!(held(&index), [30, 0, 0, 5]);
    index.predict(A, &alone(9, 500), at(6), NEVER);
    assert_eq!(
        (overlap(&index, A, &alone(9, 500), 9).0, index.blocks(A)),
        (35, (0, 35)),
        "no more than fits"
    );
    // What is confirmed does not count, and does not go.
    index.store(A, None, &alone(7, 200), at(7)).unwrap();
    index.predict(A, &prompt(7, 200, 5, 230), at(8), NEVER);
    assert_eq!((overlap(&index, A, &prompt(7, 200, 5, 230), 9), index.blocks(A)), ((230, 200), (200, 35)));
}

#[test]
fn the_capacity_takes_what_was_touched_first_from_a_path_in_parts() {
    // A prompt, another, and the first part of the first again: its second part is the oldest.
    let (mut index, blocks) = (index(1 << 20), alone(1, 4));
    index.predict(A, &blocks, at(0), at(9));
    index.predict(A, &alone(2, 3), at(0), at(9));
    index.predict(A, &blocks[..2], at(0), at(9));
    index.set_capacity(A, Some(4));
    assert_eq!((overlap(&index, A, &blocks, 0).0, overlap(&index, A, &alone(2, 3), 0).0), (2, 2));
    index.check().unwrap();
}

#[test]
fn the_capacity_takes_last_blocks_first_also_where_they_expire_earlier() {
    let (mut index, blocks) = (index(1 << 20), alone(1, 8));
    index.store(B, None, &blocks, at(0)).unwrap();
    index.predict(A, &blocks[..4], at(0), at(90));
    index.predict(A, &blocks, at(0), at(50));
    index.set_capacity(A, Some(6));
    assert_eq!(overlap(&index, A, &blocks, 49).0, 6);
    assert_eq!(overlap(&index, A, &blocks, 50).0, 4);
    index.check().unwrap();
}

/// Longer than one node may be, and than 16 bits count.
#[test]
fn a_prompt_of_a_million_tokens_is_held_whole() {
    let (mut index, blocks) = (index(16 << 20), alone(1, 70_000));
    index.predict(A, &blocks, at(0), at(10));
    index.store(B, None, &blocks, at(0)).unwrap();
    assert_eq!(overlap(&index, A, &blocks, 0), (70_000, 0));
    assert_eq!(overlap(&index, B, &blocks, 0), (70_000, 70_000));
    assert!(index.stats().nodes < 30);
    for removed in [69_999, 69_998, 40_000, 4096, 4095, 0] {
        assert!(index.remove(B, blocks[removed]));
        assert_eq!(overlap(&index, B, &blocks, 0).0 as usize, removed);
    }
    index.check().unwrap();
    index.store(B, None, &blocks, at(0)).unwrap();
    assert_eq!(overlap(&index, B, &blocks, 0), (70_000, 70_000));
    index.check().unwrap();
}

/// An engine evicts a prompt's last blocks first, one event each, and stores them again later.
#[test]
fn eviction_and_refill_do_not_fragment() {
    let (mut index, blocks) = (index(1 << 20), alone(1, 2000));
    for round in 0..50 {
        index.store(A, None, &blocks, at(round)).unwrap();
        for &block in blocks[40 * round as usize..].iter().rev() {
            assert!(index.remove(A, block));
        }
        assert_eq!(index.stats().blocks, 40 * round as usize);
        for chunk in (40 * round as usize..2000).step_by(128) {
            let parent = chunk.checked_sub(1).map(|before| blocks[before]);
            index.store(A, parent, &blocks[chunk..2000.min(chunk + 128)], at(round)).unwrap();
        }
        assert_eq!((index.stats().nodes, overlap(&index, A, &blocks, 0)), (1, (2000, 2000)));
    }
    // Removed in the middle and filled again, block by block.
    for &block in blocks.iter().step_by(3) {
        assert!(index.remove(A, block));
    }
    assert!(index.stats().nodes > 600);
    index.store(A, None, &blocks, at(60)).unwrap();
    assert_eq!((index.stats().nodes, overlap(&index, A, &blocks, 0)), (1, (2000, 2000)));
    index.check().unwrap();
}

#[test]
fn a_hot_prefix_survives_a_stream_of_cold_prompts() {
    let mut index = index(400_000);
    let hot = alone(1, 1800);
    index.store(A, None, &hot, at(0)).unwrap();
    for number in 0..3000 {
        index.predict(A, &prompt(1, 1800, number + 10, 1875), at(number), NEVER);
        index.predict(B, &alone(number + 10, 200), at(number), NEVER);
        assert!(index.bytes() <= index.max_bytes());
    }
    assert!(index.stats().evicted_blocks > 500_000);
    assert_eq!(overlap(&index, A, &prompt(1, 1800, 3009, 1875), 3000), (1875, 1800));
    assert_eq!(overlap(&index, B, &alone(3009, 200), 3000), (200, 0));
    assert_eq!(overlap(&index, B, &alone(10, 200), 3000), (0, 0));
    index.check().unwrap();
}

/// The budget is used whatever shape the prompts have, and whatever shape they had before.
#[test]
fn memory_is_not_stuck_in_an_earlier_shape() {
    let fill = |index: &mut PrefixIndex, seeds: std::ops::Range<u64>, len: usize| {
        for seed in seeds {
            index.predict(A, &alone(seed, len), at(seed), NEVER);
            index.expire(at(seed), 8);
        }
    };
    let mut fresh = index(1 << 20);
    fill(&mut fresh, 1..1000, 500);
    let mut used = index(1 << 20);
    fill(&mut used, 10_000..40_000, 1);
    let short = used.stats();
    assert!(short.nodes > 6000, "{short:?}");
    fill(&mut used, 50_000..51_000, 500);
    let (fresh, used) = (fresh.stats(), used.stats());
    assert!(used.blocks * 100 > fresh.blocks * 95, "{used:?}, and {fresh:?} in a fresh index");
}

#[test]
fn a_prompt_that_does_not_fit_is_cut() {
    for max_bytes in (0..40_000).step_by(487) {
        let (mut index, blocks) = (index(max_bytes), alone(1, 5000));
        index.predict(A, &blocks, at(0), NEVER);
        index.store(B, None, &blocks, at(1)).unwrap();
        index.check().unwrap();
        assert!(index.bytes() <= max_bytes.max(1000), "{} of {max_bytes} bytes", index.bytes());
        let (held, _) = overlap(&index, B, &blocks, 2);
        let room = max_bytes.saturating_sub(5000);
        assert!(held as usize >= room / 30, "{held} blocks in {max_bytes} bytes");
        assert!(held < 5000 && index.stats().cut_blocks > 0);
    }
}

#[test]
fn a_million_pairs_take_less_than_half_of_48_bytes_each() {
    let mut index = PrefixIndex::new(256 << 20);
    (0..8).map(Slot).for_each(|slot| index.add_worker(slot, None));
    for seed in 0..2000 {
        index.store(Slot(seed as u32 % 8), None, &alone(seed, 500), at(seed)).unwrap();
        let stats = index.stats();
        assert!(stats.pairs < 100_000 || stats.bytes < stats.pairs * 24, "{stats:?}");
    }
    assert_eq!(index.stats().pairs, 1_000_000);
    assert!(index.stats().bytes < 24_000_000, "{:?}", index.stats());
}

proptest! {
    /// Hashes that come from no prompt (repeated, in any order, under any parent) break nothing.
    #[test]
    fn hashes_that_are_no_prefix_are_harmless(
        max_bytes in prop_oneof![Just(1_usize << 20), 4_000_usize..20_000],
        operations in prop::collection::vec((0_u8..4, 0_u32..3, prop::collection::vec(0_u64..12, 0..20)), 1..60),
    ) {
        let mut index = index(max_bytes);
        let mut overlaps = Overlaps::new();
        for (step, (operation, slot, hashes)) in operations.into_iter().enumerate() {
            let blocks: Vec<_> = hashes.into_iter().map(BlockHash).collect();
            let (now, slot) = (at(step as u64), Slot(slot));
            match (operation, blocks.split_first()) {
                (0, _) => index.predict(slot, &blocks, now, at(step as u64 + 9)),
                (1, Some((&parent, rest))) => {
                    let _ = index.store(slot, Some(parent), rest, now);
                }
                (2, Some((&block, _))) => {
                    index.remove(slot, block);
                }
                _ => index.store(slot, None, &blocks, now).unwrap(),
            }
            index.expire(now, 3);
            index.lookup(&blocks, now, &mut overlaps);
            prop_assert!(overlaps.iter().all(|(_, overlap)| overlap.blocks as usize <= blocks.len()));
            prop_assert_eq!(index.check(), Ok(()));
            prop_assert!(index.bytes() <= max_bytes);
        }
    }
}
