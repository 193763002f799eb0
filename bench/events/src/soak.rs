//! A hundred million events of engines that evict, restart, clear their caches and lose batches.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use warmroute_core::load::ledger::Outcome;
use warmroute_core::mirror::Status;
use warmroute_core::router::RouteRequest;
use warmroute_core::time::Time;

use crate::fleet::{Mirrored, accounted, resident};
use crate::wire::{BLOCK, Batch, Layout, Numbers, Prompt};

const WORKERS: usize = 8;
const KV_BLOCKS: u32 = 20_000;
const INDEX_BYTES: u64 = 1 << 28;
const SYSTEMS: u64 = 8;
const SYSTEM_BLOCKS: u32 = 40;
/// One in so many prompts a worker goes through something.
const DISORDER: u64 = 5_000;

/// What an engine holds: system prompts, and prompts' own blocks, oldest first.
struct Engine {
    systems: [bool; SYSTEMS as usize],
    prompts: VecDeque<Prompt>,
    held: u32,
    made: f64,
    batch: Batch,
}

impl Engine {
    fn new(layout: Layout) -> Engine {
        let (systems, prompts) = ([false; SYSTEMS as usize], VecDeque::new());
        Engine { systems, prompts, held: 0, made: 1.0, batch: Batch::new(layout, 1.0) }
    }

    fn empty(&mut self) {
        (self.systems, self.held) = ([false; SYSTEMS as usize], 0);
        self.prompts.clear();
    }

    /// Makes room for a prompt and stores it.
    fn serve(&mut self, prompt: Prompt) {
        let system = &mut self.systems[prompt.system as usize];
        let from = if *system { prompt.shared } else { 0 };
        *system = true;
        self.held += prompt.blocks - from;
        while self.held > KV_BLOCKS
            && let Some(gone) = self.prompts.pop_front()
        {
            self.held -= gone.blocks - gone.shared;
            for index in (gone.shared..gone.blocks).rev() {
                self.batch.removed(gone.name(index));
            }
        }
        self.batch.stored(&prompt, from, prompt.blocks);
        self.prompts.push_back(prompt);
    }

    fn send(&mut self) -> Vec<u8> {
        self.made += 0.01;
        self.batch.finish(self.made)
    }
}

struct Soak {
    fleet: Mirrored,
    engines: Vec<Engine>,
    numbers: Numbers,
    now: Time,
    events: u64,
    prompts: u64,
    /// By kind: cleared, restarted, taken for dead, lost.
    disorders: [u64; 4],
}

/// Resident memory while `events` events come; one row every `step` events.
pub fn measured(events: u64, step: u64, mut row: impl FnMut(Value)) {
    let engines = (0..WORKERS).map(|worker| Engine::new(Layout::ALL[worker % 2])).collect();
    let mut soak = Soak {
        fleet: Mirrored::new(WORKERS, KV_BLOCKS, INDEX_BYTES),
        engines,
        numbers: Numbers(7),
        now: Time::ZERO,
        events: 0,
        prompts: 0,
        disorders: [0; 4],
    };
    let mut next = step;
    while soak.events < events {
        soak.turn();
        if soak.events >= next {
            next += step;
            row(soak.row());
        }
    }
    let index = soak.fleet.router.lock();
    index.index().check().expect("the index is in order");
}

impl Soak {
    /// One prompt of one worker, from the decision to its events.
    fn turn(&mut self) {
        self.prompts += 1;
        self.now = self.now.after(Duration::from_millis(1));
        let worker = self.numbers.below(WORKERS as u64) as usize;
        if self.numbers.below(DISORDER) == 0 {
            self.disorder(worker);
        }
        let prompt = Prompt {
            system: self.numbers.below(SYSTEMS),
            shared: SYSTEM_BLOCKS,
            own: self.prompts + SYSTEMS,
            blocks: SYSTEM_BLOCKS + 1 + self.numbers.below(100) as u32,
        };
        if self.prompts.is_multiple_of(4) {
            self.decide(&prompt);
        }
        self.engines[worker].serve(prompt);
        self.publish(worker);
    }

    fn decide(&self, prompt: &Prompt) {
        let blocks = prompt.hashes(self.fleet.router.hasher());
        let prompt_tokens = (blocks.len() * BLOCK) as u32 + 1;
        let request = RouteRequest { blocks: &blocks, prompt_tokens, ..RouteRequest::default() };
        let mut lease = self.fleet.router.route(&request, self.now, 0).expect("there are workers");
        lease.close(Outcome::Finished);
    }

    fn publish(&mut self, worker: usize) {
        self.events += u64::from(self.engines[worker].batch.events());
        let payload = self.engines[worker].send();
        let status = self.fleet.take(worker, &payload, self.now);
        assert_eq!(status, Status::Live);
    }

    fn disorder(&mut self, worker: usize) {
        let kind = self.numbers.below(4) as usize;
        self.disorders[kind] += 1;
        self.engines[worker].empty();
        match kind {
            0 => {
                self.engines[worker].batch.cleared();
            }
            1 => {
                self.engines[worker].made += 100.0;
                self.fleet.next[worker] = 0;
            }
            2 => {
                let name = format!("w{worker}");
                for ready in [false, true] {
                    self.fleet.router.lock().set_ready(&name, ready).expect("a known name");
                }
                self.fleet.next[worker] = 0;
            }
            _ => {
                // What was lost cannot be had again; then the engine clears its cache.
                self.fleet.next[worker] += 3;
                self.engines[worker].batch.cleared();
                self.events += 1;
                let payload = self.engines[worker].send();
                let Status::Behind(from) = self.fleet.take(worker, &payload, self.now) else {
                    panic!("batches are missing")
                };
                let status = self.fleet.mirrors[worker].replay_failed(from, self.now);
                assert_eq!(status, Status::Live);
            }
        }
    }

    /// The state of the moment; the index confirms what the engines hold.
    fn row(&self) -> Value {
        let held: u32 = self.engines.iter().map(|engine| engine.held).sum();
        let stats = self.fleet.router.lock().index().stats();
        assert_eq!(stats.confirmed, held as usize, "confirmed blocks are those held");
        let [cleared, restarted, dead, lost] = self.disorders;
        json!({
            "part": "soak",
            "events": self.events,
            "rss_mib": (resident() as f64 / (1 << 20) as f64 * 10.0).round() / 10.0,
            "accounted_mib": (accounted(&self.fleet) as f64 / (1 << 20) as f64 * 10.0).round() / 10.0,
            "pairs": stats.pairs,
            "nodes": stats.nodes,
            "cleared": cleared,
            "restarted": restarted,
            "dead": dead,
            "lost": lost,
        })
    }
}
