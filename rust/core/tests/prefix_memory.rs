//! The prefix index's memory, beside what the allocator says.
//!
//! The process has one thread: a test harness allocates on its own, beside the test, at moments of its choice.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test without a harness")]

use peak_alloc::PeakAlloc;
use warmroute_core::block::BlockHash;
use warmroute_core::ids::Slot;
use warmroute_core::prefix::{Overlaps, PrefixIndex};
use warmroute_core::time::Time;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const BUDGET: usize = 3 << 20;
const WORKERS: u64 = 8;

/// A long run that is merged or split is copied: for a moment it is there twice.
const TRANSIENT: usize = 80 << 10;

/// A repeatable source of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % end
    }
}

/// A prompt of one of 50 system prompts and one of 2,000 suffixes, of some length.
fn fill(blocks: &mut Vec<BlockHash>, numbers: &mut Numbers) {
    let (system, suffix) = (numbers.below(50) + 1, numbers.below(2000) + 100);
    let (shared, len) = (200 + system * 3, numbers.below(1200) + 1);
    let mut hash = system;
    blocks.clear();
    for at in 0..len {
        hash = (hash ^ if at < shared { 1 } else { suffix }).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        hash ^= hash >> 32;
        blocks.push(BlockHash(hash));
    }
}

fn main() {
    bytes_are_what_the_allocator_gave();
    println!("test bytes_are_what_the_allocator_gave ... ok");
    println!("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}

fn bytes_are_what_the_allocator_gave() {
    let mut blocks = Vec::with_capacity(4096);
    let mut overlaps = Overlaps::new();
    let mut numbers = Numbers(7);
    PrefixIndex::new(0).lookup(&[], Time::ZERO, &mut overlaps);

    let before = ALLOCATOR.current_usage();
    let mut index = PrefixIndex::new(BUDGET);
    for slot in 0..WORKERS {
        index.add_worker(Slot(slot as u32), Some(40_000));
    }
    let mut full = false;
    for step in 0..6000 {
        let (now, slot) = (Time::from_nanos(step), Slot(numbers.below(WORKERS) as u32));
        fill(&mut blocks, &mut numbers);
        ALLOCATOR.reset_peak_usage();
        match numbers.below(20) {
            0..9 => index.predict(slot, &blocks, now, Time::from_nanos(step + 400)),
            9..15 => index.store(slot, None, &blocks, now).unwrap(),
            15..19 => {
                for &block in blocks.iter().rev().take(40) {
                    index.remove(slot, block);
                }
            }
            _ if step % 7 == 0 => index.clear_worker(slot),
            _ => {}
        }
        index.expire(now, 8);
        assert_eq!(ALLOCATOR.current_usage() - before, index.bytes(), "after step {step}");
        let peak = ALLOCATOR.peak_usage() - before;
        assert!(peak <= BUDGET + TRANSIENT, "{peak} bytes at most in step {step}");
        full |= index.stats().evicted_blocks > 0;
        if step % 500 == 0 {
            index.check().unwrap();
        }
    }
    assert!(full, "the budget is met");
    for slot in 0..WORKERS {
        index.remove_worker(Slot(slot as u32));
    }
    assert_eq!(ALLOCATOR.current_usage() - before, index.bytes());
    assert_eq!((index.stats().nodes, index.stats().blocks, index.stats().pairs), (0, 0, 0));
    assert!(index.bytes() < 20_000, "{} bytes of an empty index", index.bytes());
    drop(index);
    assert_eq!(ALLOCATOR.current_usage(), before);
}
