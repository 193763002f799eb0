//! What must hold for any bytes that come as KV events; `rust/core` has the same as an ordinary test.

use std::time::Instant;

use warmroute_core::block::BlockHash;
use warmroute_core::config::RouterConfig;
use warmroute_core::event::{Batch, Event, decode};
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::ids::WorkerId;
use warmroute_core::load::ledger::Outcome;
use warmroute_core::mirror::{Mirror, Status};
use warmroute_core::router::{RouteRequest, SharedRouter};
use warmroute_core::time::Time;

/// Tokens of a router's block, by the first byte of an input: that of the captures, and two that divide it.
const BLOCK_SIZES: [u32; 4] = [32, 16, 2, 1];
const WORKERS: usize = 2;
const INDEX_BYTES: u64 = 1 << 20;
/// Bytes before each payload: what comes, and two for its length.
pub const HEAD: usize = 3;

/// Reads `bytes` as what a router may meet: a byte that chooses the router, and steps of a payload each. The index
/// stays what the mirrors say.
pub fn mirrored(bytes: &[u8]) {
    let Some((choice, mut rest)) = bytes.split_first() else { return };
    let mut fleet = Fleet::new(*choice);
    while let Some((&[kind, low, high], tail)) = rest.split_first_chunk::<HEAD>() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(tail.len());
        let (batch, after) = tail.split_at(length);
        fleet.step(kind, batch);
        rest = after;
    }
    fleet.check();
    fleet.empty();
}

/// One step of [`mirrored`].
pub fn step(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX).to_le_bytes();
    [&[kind, length[0], length[1]], payload].concat()
}

/// Reads `bytes` as a payload: they are an error or events, and no more events than there are bytes.
pub fn decoded(bytes: &[u8]) {
    let Ok(Batch { events, faults, .. }) = decode(bytes) else { return };
    assert!(events.len() + faults.len() <= bytes.len() && faults.len() <= 16);
    for event in &events {
        let Event::Stored(stored) = event else { continue };
        assert!(stored.block_size > 0 && stored.tokens.len() % 4 == 0);
        assert!(stored.hashes.len() + stored.tokens.len() / 4 <= bytes.len());
        assert!(stored.keys.is_sorted_by(|one, next| one.0 < next.0));
    }
}

struct Fleet {
    router: SharedRouter,
    workers: Vec<WorkerId>,
    mirrors: Vec<Mirror>,
    /// The number of each worker's next batch.
    next: [u64; WORKERS],
    block_size: u32,
    now: Time,
}

impl Fleet {
    fn new(choice: u8) -> Fleet {
        let block_size = BLOCK_SIZES[usize::from(choice) % BLOCK_SIZES.len()];
        let config = RouterConfig { block_size, index_bytes: INDEX_BYTES, ..RouterConfig::default() };
        let router = SharedRouter::new(config, Instant::now()).expect("options in their ranges");
        let kv_blocks = Some(if choice & 4 == 0 { 64 } else { 100_000 });
        let add = |name: &str| {
            let spec = WorkerSpec { name: name.to_owned(), kv_blocks, ..WorkerSpec::default() };
            router.lock().add_worker(spec).expect("a new name")
        };
        let workers: Vec<WorkerId> = ["0", "1"].map(add).to_vec();
        let mirrors = workers.iter().map(|worker| Mirror::new(router.clone(), *worker, 7)).collect();
        Fleet { router, workers, mirrors, next: [0; WORKERS], block_size, now: Time::from_nanos(1) }
    }

    /// What comes: a batch in order, again or out of order, an answer to what was asked for, or a question.
    fn step(&mut self, kind: u8, payload: &[u8]) {
        self.now = Time::from_nanos(self.now.as_nanos() + 1);
        let at = usize::from(kind & 1);
        let (now, mirror, next) = (self.now, &mut self.mirrors[at], &mut self.next[at]);
        let open = match mirror.status() {
            Status::Behind(from) => from,
            Status::Live | Status::Gone => *next,
        };
        let number = match kind >> 1 & 7 {
            0..=3 => *next,
            4 => next.saturating_sub(1),
            5 => *next + 2,
            6 => 0,
            _ => u64::from(kind),
        };
        match kind >> 4 {
            0..=9 => {
                mirror.take(number, payload, now);
                *next = number + 1;
            }
            10 => mirror.replayed(open, open.max(number), payload, now),
            11 => drop(mirror.replay_ended(open, now)),
            12 => drop(mirror.replay_failed(open, now)),
            13 => drop(mirror.catch_up()),
            14 => self.route(payload),
            _ => {
                let name = ["0", "1"][at];
                for ready in [false, true] {
                    self.router.lock().set_ready(name, ready).expect("a known name");
                }
            }
        }
    }

    /// Routes the prompt whose token ids are `payload`.
    fn route(&mut self, payload: &[u8]) {
        let ids: Vec<u8> = payload.iter().flat_map(|id| u32::from(*id).to_le_bytes()).collect();
        let mut blocks: Vec<BlockHash> = Vec::new();
        self.router.hasher().hash_ids(&self.router.namespace(None, ""), &ids, &mut blocks);
        let request = RouteRequest {
            blocks: &blocks,
            prompt_tokens: payload.len() as u32 + 1,
            ..RouteRequest::default()
        };
        let mut lease = self.router.route(&request, self.now, 0).expect("there are workers");
        let decision = lease.decision();
        assert!(decision.confirmed_tokens <= decision.overlap_tokens);
        assert!(decision.overlap_tokens as usize <= blocks.len() * self.block_size as usize);
        lease.close(Outcome::Finished);
    }

    /// The index is in order, and confirms nothing that no mirror has a name for.
    fn check(&self) {
        let router = self.router.lock();
        if let Err(inconsistency) = router.index().check() {
            panic!("{inconsistency}");
        }
        assert!(router.index().bytes() <= router.index().max_bytes());
        for (worker, mirror) in self.workers.iter().zip(&self.mirrors) {
            let (confirmed, stats) = (router.index().blocks(worker.slot()).0, mirror.stats());
            let most = stats.blocks as u64 * u64::from(BLOCK_SIZES[0].max(self.block_size));
            assert!(confirmed <= most, "{confirmed} blocks are confirmed: {stats:?}");
        }
    }

    /// Workers that restart hold nothing.
    fn empty(&mut self) {
        self.mirrors.iter_mut().for_each(Mirror::restarted);
        let router = self.router.lock();
        for worker in &self.workers {
            assert_eq!(router.index().blocks(worker.slot()), (0, 0));
        }
        assert_eq!(router.index().stats().pairs, 0);
        if let Err(inconsistency) = router.index().check() {
            panic!("{inconsistency}");
        }
    }
}
