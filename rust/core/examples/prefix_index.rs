//! Memory and time of the prefix index.
//!
//!     cargo run --release -p warmroute-core --example prefix_index              # everything
//!     cargo run --release -p warmroute-core --example prefix_index lookup_8 400 # one operation, 400 times
//!
//! The second form is for counting instructions: run it with two counts and take the difference.

#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]
#![allow(clippy::print_stdout, reason = "a program that prints figures")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use warmroute_core::block::BlockHash;
use warmroute_core::ids::Slot;
use warmroute_core::prefix::{Overlaps, PrefixIndex};
use warmroute_core::time::Time;

const BUDGET: usize = 256 << 20;
const PROMPT: usize = 1875;
const SYSTEM: usize = 1800;

/// Chained hashes of a prompt: the same `seed` and `shared` give the same first `shared` blocks.
fn prompt(seed: u64, shared: usize, own: u64, len: usize) -> Vec<BlockHash> {
    let mut hash = seed.wrapping_mul(0xD6E8_FEB8_6659_FD93) + 1;
    let mut chain = |symbol: u64| {
        hash = (hash ^ symbol).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        hash ^= hash >> 32;
        BlockHash(hash)
    };
    (0..len).map(|at| chain(if at < shared { 1 } else { own })).collect()
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn index(workers: u32) -> PrefixIndex {
    let mut index = PrefixIndex::new(BUDGET);
    for slot in 0..workers {
        index.add_worker(Slot(slot), None);
    }
    index
}

/// What a store cannot fail with here: every parent is stored before.
fn store(index: &mut PrefixIndex, slot: u32, parent: Option<BlockHash>, blocks: &[BlockHash]) {
    assert_eq!(index.store(Slot(slot), parent, blocks, at(1)), Ok(()));
}

fn memory() {
    println!("{:<44} {:>9} {:>8} {:>7} {:>7} {:>7}", "memory", "pairs", "blocks", "nodes", "B/pair", "most");
    let report = |name: &str, index: &PrefixIndex, most: f64| {
        let stats = index.stats();
        let each = stats.bytes as f64 / stats.pairs as f64;
        println!(
            "{name:<44} {:>9} {:>8} {:>7} {each:>7.2} {most:>7.2}",
            stats.pairs, stats.blocks, stats.nodes
        );
    };
    // `most` is the largest figure at any size above 100,000 pairs: growth included.
    let most = |most: f64, index: &PrefixIndex| match index.stats().pairs {
        0..100_000 => most,
        pairs => most.max(index.bytes() as f64 / pairs as f64),
    };
    for (name, predicted) in [("500-block prompts on 1 of 8, stored", false), ("the same, predicted", true)] {
        let (mut index, mut worst) = (index(8), 0.0);
        for number in 0..2000 {
            let blocks = prompt(number, 500, 0, 500);
            match predicted {
                true => index.predict(Slot(number as u32 % 8), &blocks, at(1), at(100)),
                false => store(&mut index, number as u32 % 8, None, &blocks),
            }
            worst = most(worst, &index);
        }
        report(name, &index, worst);
    }
    let (mut shared, mut worst) = (index(16), 0.0);
    for number in 0..125 {
        for slot in 0..16 {
            store(&mut shared, slot, None, &prompt(number, 500, 0, 500));
            worst = most(worst, &shared);
        }
    }
    report("500-block prompts on 16 workers each", &shared, worst);
    let (mut agents, mut worst) = (index(8), 0.0);
    for number in 0..12_000 {
        let blocks = prompt(number % 32, SYSTEM, number + 2, PROMPT);
        agents.predict(Slot(number as u32 % 8), &blocks, at(number), at(u64::MAX));
        worst = most(worst, &agents);
    }
    report("32 system prompts on 8, 12,000 own suffixes", &agents, worst);
    let (mut chunks, mut worst) = (index(8), 0.0);
    for number in 0..2000 {
        let blocks = prompt(number, 500, 0, 500);
        let mut parent = None;
        for chunk in [&blocks[..128], &blocks[128..256], &blocks[256..384], &blocks[384..492]] {
            store(&mut chunks, number as u32 % 8, parent, chunk);
            parent = chunk.last().copied();
        }
        for block in &blocks[492..] {
            store(&mut chunks, number as u32 % 8, parent, std::slice::from_ref(block));
            parent = Some(*block);
        }
        worst = most(worst, &chunks);
    }
    report("the same as events: 4 chunks, 8 single blocks", &chunks, worst);
}

/// A named operation, prepared and then repeated.
struct Bench {
    name: &'static str,
    what: &'static str,
    prepare: fn() -> Box<dyn FnMut(u64)>,
}

/// An index where `workers` hold one long prompt, among a million other pairs.
fn shared_by(workers: u32) -> (PrefixIndex, Vec<BlockHash>) {
    let mut index = index(workers.max(8));
    for number in 0..500 {
        store(&mut index, number as u32 % 8, None, &prompt(1000 + number, PROMPT, 0, PROMPT));
    }
    let blocks = prompt(7, SYSTEM, 3, PROMPT);
    for slot in 0..workers {
        store(&mut index, slot, None, &blocks);
        // A second suffix, so that the system prompt is a node of its own.
        store(&mut index, slot, None, &prompt(7, SYSTEM, 4, PROMPT));
    }
    (index, blocks)
}

fn lookup(workers: u32) -> Box<dyn FnMut(u64)> {
    let (index, blocks) = shared_by(workers);
    let mut overlaps = Overlaps::new();
    Box::new(move |_| {
        index.lookup(black_box(&blocks), at(2), &mut overlaps);
        assert_eq!(overlaps.iter().len(), workers as usize);
    })
}

fn lookup_scattered() -> Box<dyn FnMut(u64)> {
    let (index, _) = shared_by(8);
    let prompts: Vec<_> = (0..500).map(|number| prompt(1000 + number, PROMPT, 0, PROMPT)).collect();
    let mut overlaps = Overlaps::new();
    Box::new(move |round| {
        index.lookup(black_box(&prompts[(round * 181 % 500) as usize]), at(2), &mut overlaps);
        assert_eq!(overlaps.iter().len(), 1);
    })
}

fn lookup_unknown() -> Box<dyn FnMut(u64)> {
    let (index, _) = shared_by(8);
    let prompts: Vec<_> = (0..500).map(|number| prompt(9000 + number, PROMPT, 0, PROMPT)).collect();
    let mut overlaps = Overlaps::new();
    Box::new(move |round| {
        index.lookup(black_box(&prompts[(round * 181 % 500) as usize]), at(2), &mut overlaps);
    })
}

fn predict_known() -> Box<dyn FnMut(u64)> {
    let (mut index, _) = shared_by(8);
    let blocks = prompt(5, SYSTEM, 3, PROMPT);
    index.predict(Slot(0), &prompt(5, SYSTEM, 4, PROMPT), at(1), at(2));
    Box::new(move |round| index.predict(Slot(0), black_box(&blocks), at(round + 2), at(round + 1000)))
}

fn predict_suffix() -> Box<dyn FnMut(u64)> {
    let (mut index, _) = shared_by(8);
    let prompts: Vec<_> = (0..4096).map(|number| prompt(5, SYSTEM, 3 + number, PROMPT)).collect();
    let mut round_trip = 0;
    Box::new(move |round| {
        let blocks = &prompts[(round % 4096) as usize];
        round_trip += u64::from(round % 4096 == 0);
        // Each suffix has left before it comes again.
        if round % 4096 == 0 {
            index.clear_worker(Slot(0));
        }
        index.predict(Slot(0), black_box(blocks), at(round), at(round + 1000 + round_trip));
    })
}

fn predict_new() -> Box<dyn FnMut(u64)> {
    let (mut index, _) = shared_by(8);
    let prompts: Vec<_> = (0..256).map(|number| prompt(5000 + number, PROMPT, 0, PROMPT)).collect();
    Box::new(move |round| {
        if round % 256 == 0 {
            index.drop_predictions(Slot(0));
        }
        index.predict(Slot(0), black_box(&prompts[(round % 256) as usize]), at(round), at(round + 1000));
    })
}

fn store_chunk() -> Box<dyn FnMut(u64)> {
    let (mut index, _) = shared_by(8);
    let prompts: Vec<_> = (0..256).map(|number| prompt(5000 + number, PROMPT, 0, PROMPT)).collect();
    Box::new(move |round| {
        let (chunk, blocks) = (round as usize % 14, &prompts[(round / 14 % 256) as usize]);
        if round % (14 * 256) == 0 {
            index.clear_worker(Slot(0));
        }
        let parent = chunk.checked_sub(1).map(|before| blocks[before * 128 + 127]);
        store(&mut index, 0, parent, black_box(&blocks[chunk * 128..][..128]));
    })
}

fn store_one() -> Box<dyn FnMut(u64)> {
    let (mut index, _) = shared_by(8);
    let blocks = prompt(5000, 4000, 0, 4000);
    Box::new(move |round| {
        let block = round as usize % 4000;
        if block == 0 {
            index.clear_worker(Slot(0));
        }
        store(
            &mut index,
            0,
            block.checked_sub(1).map(|before| blocks[before]),
            black_box(&blocks[block..=block]),
        );
    })
}

fn remove_tail() -> Box<dyn FnMut(u64)> {
    let (mut index, _) = shared_by(8);
    let prompts: Vec<_> = (0..64).map(|number| prompt(5000 + number, PROMPT, 0, PROMPT)).collect();
    let mut refills = 0;
    let mut held = 0;
    Box::new(move |_| {
        if held == 0 {
            for blocks in &prompts {
                store(&mut index, 0, None, blocks);
            }
            (held, refills) = (prompts.len() * PROMPT, refills + 1);
        }
        held -= 1;
        let (number, block) = (held / PROMPT, held % PROMPT);
        assert!(index.remove(Slot(0), black_box(prompts[number][block])));
    })
}

fn sweep_node() -> Box<dyn FnMut(u64)> {
    let (mut index, _) = shared_by(8);
    Box::new(move |_| {
        black_box(index.expire(at(2), 1));
    })
}

const BENCHES: &[Bench] = &[
    Bench { name: "lookup_8", what: "lookup, 1,875 blocks, 8 workers hold them", prepare: || lookup(8) },
    Bench {
        name: "lookup_256",
        what: "lookup, 1,875 blocks, 256 workers hold them",
        prepare: || lookup(256),
    },
    Bench {
        name: "lookup_scattered",
        what: "lookup, one of 500 prompts, 1 of 8 holds it",
        prepare: lookup_scattered,
    },
    Bench { name: "lookup_unknown", what: "lookup, unknown prompt", prepare: lookup_unknown },
    Bench { name: "predict_known", what: "predict, known path of 1,875 blocks", prepare: predict_known },
    Bench {
        name: "predict_suffix",
        what: "predict, 75 new blocks after 1,800 known",
        prepare: predict_suffix,
    },
    Bench { name: "predict_new", what: "predict, 1,875 new blocks", prepare: predict_new },
    Bench { name: "store_chunk", what: "store, 128 blocks after a known parent", prepare: store_chunk },
    Bench { name: "store_one", what: "store, 1 block after a known parent", prepare: store_one },
    Bench { name: "remove_tail", what: "remove, the last block of a prompt", prepare: remove_tail },
    Bench { name: "sweep_node", what: "expire, one node", prepare: sweep_node },
];

/// The median and the 90th percentile of 400 samples.
fn time(bench: &Bench) {
    let mut operation = (bench.prepare)();
    let (mut round, mut samples) = (0, Vec::new());
    let mut sample = |rounds: u64| {
        let start = Instant::now();
        for _ in 0..rounds {
            operation(round);
            round += 1;
        }
        start.elapsed()
    };
    let mut rounds = 1;
    while sample(rounds) < Duration::from_micros(200) {
        rounds *= 2;
    }
    for _ in 0..400 {
        samples.push(sample(rounds).as_secs_f64() * 1e9 / rounds as f64);
    }
    samples.sort_by(f64::total_cmp);
    println!("{:<18} {:<46} {:>10.0} {:>10.0}", bench.name, bench.what, samples[200], samples[360]);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let Some(name) = arguments.next() {
        let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
        let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
            println!(
                "no such operation; there are: {}",
                BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>().join(" ")
            );
            return;
        };
        let mut operation = (bench.prepare)();
        (0..rounds).for_each(&mut operation);
        return;
    }
    memory();
    println!("\n{:<65} {:>10} {:>10}", "time, ns an operation", "median", "90 %");
    BENCHES.iter().for_each(time);
}
