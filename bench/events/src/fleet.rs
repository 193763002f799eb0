//! Routers with mirrored workers, and what they take of the machine.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::mirror::{Mirror, Status};
use warmroute_core::router::SharedRouter;
use warmroute_core::time::Time;

use crate::wire::BLOCK;

/// A router, and a mirror for each of its workers.
pub struct Mirrored {
    pub router: SharedRouter,
    pub mirrors: Vec<Mirror>,
    pub next: Vec<u64>,
}

impl Mirrored {
    /// `workers` workers of `kv_blocks` blocks each.
    pub fn new(workers: usize, kv_blocks: u32, index_bytes: u64) -> Mirrored {
        let config = RouterConfig { block_size: BLOCK as u32, index_bytes, ..RouterConfig::default() };
        let router = SharedRouter::new(config, Instant::now()).expect("options in their ranges");
        let mirror = |number: usize| {
            let name = format!("w{number}");
            let spec = WorkerSpec { name, kv_blocks: Some(kv_blocks), ..WorkerSpec::default() };
            let worker = router.lock().add_worker(spec).expect("a new name");
            Mirror::new(router.clone(), worker, number as u64)
        };
        Mirrored { mirrors: (0..workers).map(mirror).collect(), next: vec![0; workers], router }
    }

    /// The next batch of a worker.
    pub fn take(&mut self, worker: usize, payload: &[u8], now: Time) -> Status {
        let number = self.next[worker];
        self.next[worker] += 1;
        self.mirrors[worker].take(number, payload, now)
    }
}

/// Bytes that the index and the mirrors say they take.
pub fn accounted(fleet: &Mirrored) -> usize {
    let names: usize = fleet.mirrors.iter().map(|mirror| mirror.stats().bytes).sum();
    fleet.router.lock().index().bytes() + names
}

/// CPU time of this thread.
pub fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Resident bytes of this process.
pub fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
