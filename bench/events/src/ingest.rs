//! From wire bytes to confirmed blocks, on one core.

use std::hint::black_box;

use serde_json::{Value, json};
use warmroute_core::event;
use warmroute_core::time::Time;

use crate::fleet::{Mirrored, cpu, median};
use crate::wire::{Batch, Layout, Prompt};

const WORKERS: usize = 8;
const PROMPT_BLOCKS: u32 = 500;
const INDEX_BYTES: u64 = 4 << 30;

/// Batches of `size` blocks for `prompts` prompts, with the worker of each.
fn batches(layout: Layout, size: u32, prompts: u64) -> Vec<(usize, Vec<u8>)> {
    let mut batch = Batch::new(layout, 1.0);
    let mut batches = Vec::new();
    for number in 0..prompts {
        let prompt = Prompt { system: 0, shared: 0, own: number + 1, blocks: PROMPT_BLOCKS };
        for from in (0..PROMPT_BLOCKS).step_by(size as usize) {
            let to = PROMPT_BLOCKS.min(from + size);
            let payload = batch.stored(&prompt, from, to).finish(1.0);
            batches.push((number as usize % WORKERS, payload));
        }
    }
    batches
}

/// Nanoseconds of CPU a block, in the median of `rounds` rounds.
pub fn measured(layout: Layout, size: u32, blocks: u64, rounds: usize) -> Value {
    let batches = batches(layout, size, blocks / u64::from(PROMPT_BLOCKS));
    let blocks = blocks as f64;
    let wire: usize = batches.iter().map(|(_, payload)| payload.len()).sum();
    let (mut decode, mut all) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = cpu();
        for (_, payload) in &batches {
            black_box(event::decode(payload)).expect("a batch");
        }
        decode.push((cpu() - start).as_secs_f64() * 1e9 / blocks);
        let mut fleet = Mirrored::new(WORKERS, 1 << 20, INDEX_BYTES);
        let start = cpu();
        for (worker, payload) in &batches {
            fleet.take(*worker, payload, Time::from_nanos(1));
        }
        all.push((cpu() - start).as_secs_f64() * 1e9 / blocks);
        assert_eq!(fleet.router.lock().index().stats().confirmed, blocks as usize);
    }
    let all = median(all);
    json!({
        "part": "ingest",
        "layout": layout.name(),
        "batch_blocks": size,
        "wire_bytes": (wire as f64 / blocks).round(),
        "decode_ns": median(decode).round(),
        "block_ns": all.round(),
        "blocks_per_s": (1e9 / all).round(),
    })
}
