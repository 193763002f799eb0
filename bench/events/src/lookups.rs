//! Decisions while events come, beside the same decisions while none come.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warmroute_core::block::BlockHash;
use warmroute_core::load::ledger::Outcome;
use warmroute_core::router::{RouteRequest, SharedRouter};
use warmroute_core::time::Time;

use crate::fleet::{Mirrored, median};
use crate::wire::{BLOCK, Batch, Layout, Prompt};

const WORKERS: usize = 8;
const PROMPT_BLOCKS: u32 = 500;
/// Prompts that a worker holds at once, and as many that it does not.
const PROMPTS: u64 = 250;
const INDEX_BYTES: u64 = 4 << 30;
/// From the end of one decision to the next.
const PAUSE: Duration = Duration::from_micros(20);

/// What comes while decisions are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// Prompts are stored in batches of so many blocks, and others are evicted block by block.
    Churn(u32),
    /// Workers clear their caches of [`PROMPTS`] prompts and fill them again.
    Clears,
}

impl Events {
    fn name(self) -> String {
        match self {
            Events::Churn(size) => format!("stored and removed, batches of {size}"),
            Events::Clears => "cleared and filled".to_owned(),
        }
    }

    /// Payloads that bring a worker from [`PROMPTS`] prompts, the first ones, back to them.
    fn cycle(self, prompts: &[Prompt]) -> Vec<Vec<u8>> {
        let (held, mut batch, mut cycle) = (PROMPTS as usize, Batch::new(Layout::Map, 1.0), Vec::new());
        let store = |batch: &mut Batch, prompt: &Prompt, size: u32, cycle: &mut Vec<Vec<u8>>| {
            for from in (0..PROMPT_BLOCKS).step_by(size as usize) {
                cycle.push(batch.stored(prompt, from, PROMPT_BLOCKS.min(from + size)).finish(1.0));
            }
        };
        match self {
            Events::Churn(size) => {
                for (at, gone) in prompts.iter().enumerate() {
                    for index in (0..PROMPT_BLOCKS).rev() {
                        batch.removed(gone.name(index));
                        if index % size == 0 {
                            cycle.push(batch.finish(1.0));
                        }
                    }
                    store(&mut batch, &prompts[(at + held) % prompts.len()], size, &mut cycle);
                }
            }
            Events::Clears => {
                cycle.push(batch.cleared().finish(1.0));
                prompts[..held].iter().for_each(|prompt| store(&mut batch, prompt, 500, &mut cycle));
            }
        }
        cycle
    }
}

fn prompts(worker: usize) -> Vec<Prompt> {
    let own = |number| (worker as u64 * 2 * PROMPTS) + number + 1;
    let prompt = |number| Prompt { system: 0, shared: 0, own: own(number), blocks: PROMPT_BLOCKS };
    (0..2 * PROMPTS).map(prompt).collect()
}

/// A fleet whose workers hold their first prompts.
fn loaded() -> Mirrored {
    let mut fleet = Mirrored::new(WORKERS, 1 << 18, INDEX_BYTES);
    let mut batch = Batch::new(Layout::Map, 1.0);
    for worker in 0..WORKERS {
        for prompt in &prompts(worker)[..PROMPTS as usize] {
            let payload = batch.stored(prompt, 0, PROMPT_BLOCKS).finish(1.0);
            fleet.take(worker, &payload, Time::from_nanos(1));
        }
    }
    fleet
}

/// Where the events go in a round.
const NOWHERE: u8 = 0;
/// Into a router that nobody asks: what they cost by the machine alone.
const ELSEWHERE: u8 = 1;
/// Into the router that decides.
const HERE: u8 = 2;
const STOP: u8 = 3;

/// Latencies of decisions in `rounds` rounds of `seconds` seconds for each of these, in turns.
pub fn measured(events: Events, rounds: usize, seconds: f64) -> Value {
    let mut fleets = [loaded(), loaded()];
    let router = fleets[1].router.clone();
    let all: Vec<Vec<Prompt>> = (0..WORKERS).map(prompts).collect();
    let cycles: Vec<_> = all.iter().map(|prompts| events.cycle(prompts)).collect();
    let questions: Vec<_> =
        all.iter().flatten().step_by(7).map(|prompt| prompt.hashes(router.hasher())).collect();
    let (place, applied) = (AtomicU8::new(NOWHERE), [AtomicU64::new(0), AtomicU64::new(0)]);
    let mut found = [const { Vec::new() }; 3];
    std::thread::scope(|scope| {
        scope.spawn(|| apply(&mut fleets, &cycles, &place, &applied));
        for _ in 0..rounds {
            for at in [NOWHERE, ELSEWHERE, HERE] {
                place.store(at, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                found[usize::from(at)].push(latencies(&router, &questions, seconds));
            }
        }
        place.store(STOP, Ordering::SeqCst);
    });
    let [alone, elsewhere, here] = found;
    let row = |rounds: &[Vec<f64>], share: f64| median(rounds.iter().map(|each| at(each, share)).collect());
    json!({
        "part": "lookups",
        "events": events.name(),
        "batches_per_s": (applied[1].load(Ordering::SeqCst) as f64 / seconds / rounds as f64).round(),
        "decisions": here.iter().map(Vec::len).sum::<usize>(),
        "alone_p50_us": row(&alone, 0.5),
        "alone_p99_us": row(&alone, 0.99),
        "elsewhere_p50_us": row(&elsewhere, 0.5),
        "elsewhere_p99_us": row(&elsewhere, 0.99),
        "p50_us": row(&here, 0.5),
        "p99_us": row(&here, 0.99),
        "p999_us": row(&here, 0.999),
        "most_us": row(&here, 1.0),
        "p99_over_alone": row(&here, 0.99) / row(&alone, 0.99),
        "p99_over_elsewhere": row(&here, 0.99) / row(&elsewhere, 0.99),
    })
}

fn at(sorted: &[f64], share: f64) -> f64 {
    let place = ((sorted.len() as f64 * share) as usize).min(sorted.len() - 1);
    (sorted[place] * 100.0).round() / 100.0
}

/// Applies batches where `place` says, in turns by worker.
fn apply(fleets: &mut [Mirrored; 2], cycles: &[Vec<Vec<u8>>], place: &AtomicU8, applied: &[AtomicU64; 2]) {
    let mut turns = [vec![0; cycles.len()], vec![0; cycles.len()]];
    loop {
        let at = match place.load(Ordering::SeqCst) {
            NOWHERE => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            STOP => return,
            place => usize::from(place == HERE),
        };
        for (worker, cycle) in cycles.iter().enumerate() {
            let turn = &mut turns[at][worker];
            fleets[at].take(worker, &cycle[*turn], Time::from_nanos(2));
            *turn = (*turn + 1) % cycle.len();
            applied[at].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Microseconds of each decision, sorted.
fn latencies(router: &SharedRouter, questions: &[Vec<BlockHash>], seconds: f64) -> Vec<f64> {
    let (start, mut latencies, mut turn) = (Instant::now(), Vec::new(), 0);
    while start.elapsed().as_secs_f64() < seconds {
        let blocks = &questions[turn % questions.len()];
        turn += 1;
        let prompt_tokens = (blocks.len() * BLOCK) as u32 + 1;
        let request = RouteRequest { blocks, prompt_tokens, ..RouteRequest::default() };
        let before = Instant::now();
        let lease = router.route(&request, Time::from_nanos(2), 0);
        latencies.push(before.elapsed().as_secs_f64() * 1e6);
        lease.expect("a worker").close(Outcome::Failed);
        let pause = Instant::now();
        while pause.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
    }
    latencies.sort_by(f64::total_cmp);
    latencies
}
