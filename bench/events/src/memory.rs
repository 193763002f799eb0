//! Bytes for each pair of a block and a worker that holds it, with the engines' names of blocks.

use serde_json::{Value, json};
use warmroute_core::time::Time;

use crate::fleet::{Mirrored, accounted, resident};
use crate::wire::{Batch, Layout, Prompt};

const WORKERS: u64 = 8;
const INDEX_BYTES: u64 = 1 << 30;
/// Blocks of a batch: 2,048 tokens, what vLLM prefills at once.
const BATCH_BLOCKS: u32 = 128;

/// Who holds what: prompts of `blocks` blocks, the first `shared` of them one of 32 system prompts, each on `holders`
/// workers.
struct Shape {
    name: &'static str,
    shared: u32,
    blocks: u32,
    holders: u64,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "500 blocks on one worker", shared: 0, blocks: 500, holders: 1 },
    Shape { name: "500 blocks on all eight", shared: 0, blocks: 500, holders: 8 },
    Shape { name: "100 own blocks after 1,800 shared", shared: 1800, blocks: 1900, holders: 1 },
    Shape { name: "64 blocks on one worker", shared: 0, blocks: 64, holders: 1 },
];

/// What `pairs` pairs take, in the shape of that number; nothing where there is no such shape.
pub fn measured(shape: usize, pairs: u64) -> Option<Value> {
    let shape = SHAPES.get(shape)?;
    let mut fleet = Mirrored::new(WORKERS as usize, (pairs / WORKERS) as u32, INDEX_BYTES);
    let mut batch = Batch::new(Layout::Map, 1.0);
    let mut store = |fleet: &mut Mirrored, worker: u64, prompt: &Prompt, from: u32| {
        for start in (from..prompt.blocks).step_by(BATCH_BLOCKS as usize) {
            let payload = batch.stored(prompt, start, prompt.blocks.min(start + BATCH_BLOCKS)).finish(1.0);
            fleet.take(worker as usize, &payload, Time::from_nanos(1));
        }
    };
    let (accounted_before, before) = (accounted(&fleet), resident());
    for worker in 0..WORKERS {
        for system in 0..32 {
            let prompt = Prompt { system, shared: shape.shared, own: 0, blocks: shape.shared };
            store(&mut fleet, worker, &prompt, 0);
        }
    }
    let held = |fleet: &Mirrored| fleet.router.lock().index().stats().pairs as u64;
    let mut number = 0;
    while held(&fleet) + u64::from(shape.blocks - shape.shared) * shape.holders <= pairs {
        number += 1;
        let prompt =
            Prompt { system: number % 32, shared: shape.shared, own: number + 1000, blocks: shape.blocks };
        for holder in 0..shape.holders {
            store(&mut fleet, (number / 32 + holder) % WORKERS, &prompt, shape.shared);
        }
    }
    let stats = fleet.router.lock().index().stats();
    assert_eq!((stats.confirmed, stats.evicted_blocks), (stats.pairs, 0));
    let names: usize = fleet.mirrors.iter().map(|mirror| mirror.stats().bytes).sum();
    let each = |bytes: usize| (bytes as f64 / stats.pairs as f64 * 10.0).round() / 10.0;
    let (accounted, grown) = (accounted(&fleet) - accounted_before, resident() - before);
    Some(json!({
        "part": "memory",
        "shape": shape.name,
        "pairs": stats.pairs,
        "blocks": stats.blocks,
        "nodes": stats.nodes,
        "rss_per_pair": each(grown),
        "accounted_per_pair": each(accounted),
        "names_per_pair": each(names),
        "accounted_over_rss": (accounted as f64 / grown as f64 * 1000.0).round() / 1000.0,
    }))
}
