//! A worker's KV cache as its events tell it, kept in the router's index.
//!
//! Batches come in order or not, once or twice, and some never: [`Mirror`] applies each once and in order, asks
//! for what is missing, and where that cannot be had takes what it knew for a guess. Prompts are hashed outside
//! the router's lock, which is held for a few blocks at a time.

mod apply;
mod confirmed;
mod held;
mod lower;
mod order;
mod paged;
mod pages;
mod pending;
mod room;
mod stats;
mod table;

pub use confirmed::Confirmed;
pub use stats::MirrorStats;

use crate::event::{self, Batch, Tier};
use crate::ids::WorkerId;
use crate::prefix::Forget;
use crate::router::SharedRouter;
use crate::time::Time;
use held::Held;
use order::{Order, Verdict};
use paged::Twins;
use pages::Pages;
use pending::Pending;

/// Bytes of batches that wait while older ones are asked for.
const PENDING_BYTES: usize = 8 << 20;
/// How often the same gap is asked for again.
const ROUNDS: u32 = 3;

/// What is wanted of whoever feeds a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is up to date.
    Live,
    /// Batches from this number on are missing. Feed them to [`Mirror::replayed`] and then say
    /// [`Mirror::replay_ended`], or [`Mirror::replay_failed`] where they cannot be had; each with this number, so
    /// that an answer to an older question counts for nothing.
    Behind(u64),
    /// The worker has left the fleet.
    Gone,
}

/// One worker's events, applied to a router.
#[derive(Debug)]
pub struct Mirror {
    router: SharedRouter,
    worker: WorkerId,
    /// By [`crate::event::Tier`].
    tiers: [Held; 2],
    order: Order,
    pending: Pending,
    replay: Option<Replay>,
    /// The KV cache group that is followed: the first one of full attention.
    group: Option<u32>,
    /// How many of the router's blocks make one of the engine's.
    parts: Option<usize>,
    /// What the engine holds, where its blocks are smaller than the router's.
    pages: Option<Box<Pages>>,
    twins: Twins,
    seed: u64,
    /// Memory that names may take.
    max_bytes: usize,
    /// Events were lost since the worker was known to hold nothing.
    in_doubt: bool,
    /// What the router was told last: whether events are applied as they come, and how many blocks are copies.
    told: (bool, u32),
    /// The router's count of clears when this mirror last agreed with it.
    clears: u32,
    stats: MirrorStats,
}

/// A replay that is under way.
#[derive(Clone, Copy, Debug)]
struct Replay {
    /// The first batch that was asked for.
    from: u64,
    /// How often was asked before.
    rounds: u32,
    /// How far batches were applied when it began: a new process may take the worker's place meanwhile.
    before: Order,
}

impl Mirror {
    /// A mirror of `worker`, which knows nothing. `seed` is random: engines must not choose its table's collisions.
    pub fn new(router: SharedRouter, worker: WorkerId, seed: u64) -> Mirror {
        let (blocks, clears, max_bytes) = {
            let router = router.lock();
            let blocks = router.known_kv_blocks(worker).unwrap_or_default();
            (blocks, router.clears(worker).unwrap_or_default(), router.index().max_bytes())
        };
        Mirror {
            router,
            worker,
            tiers: [Held::new(blocks, seed), Held::new(0, seed)],
            order: Order::default(),
            pending: Pending::new(PENDING_BYTES),
            replay: None,
            group: None,
            parts: None,
            pages: None,
            twins: Twins::new(),
            seed,
            max_bytes,
            in_doubt: false,
            told: (false, 0),
            clears,
            stats: MirrorStats::default(),
        }
    }

    /// Asks for everything that can be had: the worker may have published before anyone listened.
    pub fn catch_up(&mut self) -> Status {
        if let Err(status) = self.follow_router() {
            return status;
        }
        self.ask();
        self.tell()
    }

    /// Takes a batch as it was published: its number and its payload.
    pub fn take(&mut self, number: u64, payload: &[u8], now: Time) -> Status {
        if let Err(status) = self.follow_router() {
            return status;
        }
        match self.replay {
            Some(replay) if number >= replay.from => self.pending.push(number, payload),
            Some(replay) => self.receive_older(replay.before, number, payload, now),
            None => self.receive(number, payload, now),
        }
        self.tell()
    }

    /// Takes a batch that was asked for, with the number from which it was.
    pub fn replayed(&mut self, from: u64, number: u64, payload: &[u8], now: Time) {
        if self.follow_router().is_err() {
            return;
        }
        let Some(replay) = self.replay.filter(|replay| replay.from == from) else { return };
        self.stats.replayed_batches += 1;
        let batch = self.decode(payload);
        match self.order.judge(number, batch.made) {
            Verdict::Next => self.apply(number, &batch, now),
            // It is older than what was asked for.
            Verdict::Duplicate | Verdict::Restart => self.stats.duplicates += 1,
            // An engine drops what its socket does not take; what it does not keep is missing at the beginning.
            Verdict::Gap(next) if next > from => self.replay = Some(Replay { from: next, ..replay }),
            Verdict::Gap(from) => {
                self.lose(number - from, now);
                self.apply(number, &batch, now);
            }
        }
    }

    /// Everything that could be had of what was asked for has come.
    pub fn replay_ended(&mut self, from: u64, now: Time) -> Status {
        self.end_replay(from, false, now)
    }

    /// What was asked for cannot be had. Where a part of it was, the rest is asked for again.
    pub fn replay_failed(&mut self, from: u64, now: Time) -> Status {
        self.end_replay(from, true, now)
    }

    fn end_replay(&mut self, from: u64, failed: bool, now: Time) -> Status {
        if let Err(status) = self.follow_router() {
            return status;
        }
        let Some(replay) = self.replay.take_if(|replay| replay.from == from) else { return self.tell() };
        let next = self.order.next();
        if failed && next > from {
            // Some came: the rest, or the word that it is all, was dropped.
            self.replay = Some(Replay { from: next, ..replay });
            return self.tell();
        }
        let came = self.order != replay.before;
        if failed {
            self.skip_gap(now);
        }
        while let Some((number, payload)) = self.pending.pop() {
            if came {
                self.receive_after_replay(number, &payload, now);
            } else {
                self.receive(number, &payload, now);
            }
            let Some(again) = &mut self.replay else { continue };
            // `receive` has put the batch behind the others that wait.
            self.pending.newest_first();
            if !failed && replay.rounds < ROUNDS {
                again.rounds = replay.rounds + 1;
                break;
            }
            self.replay = None;
            self.skip_gap(now);
        }
        self.tell()
    }

    /// The worker is known to be another process than before: its cache is empty, its numbers start again.
    pub fn restarted(&mut self) {
        self.begin_again();
        self.pending.clear();
    }

    /// Counters since the start, and what is held.
    pub fn stats(&self) -> MirrorStats {
        let pages = self.pages.as_ref().map_or(0, |pages| pages.bytes());
        MirrorStats {
            blocks: self.held(Tier::Device),
            lower_blocks: self.held(Tier::Lower),
            bytes: self.tiers.iter().map(Held::bytes).sum::<usize>() + pages,
            next: self.order.next(),
            ..self.stats
        }
    }

    /// The engine's blocks that are held in a tier, copies aside.
    fn held(&self, tier: Tier) -> usize {
        self.tiers[tier as usize].len() + self.pages.as_ref().map_or(0, |pages| pages.held(tier))
    }

    /// What is wanted now.
    pub fn status(&self) -> Status {
        self.replay.map_or(Status::Live, |replay| Status::Behind(replay.from))
    }

    /// Tells the router whether events are applied as they come, and the caller what is wanted.
    fn tell(&mut self) -> Status {
        let live = self.replay.is_none() && self.order.next() > 0;
        let copies = self.tiers[Tier::Device as usize].further() * self.parts.unwrap_or(1) as u32;
        let told = (live, copies);
        if told != self.told {
            self.told = told;
            self.router.lock().set_following(self.worker, told.0, told.1);
        }
        self.status()
    }

    /// Where the router has forgotten what the worker holds, starts again from what can be replayed.
    fn follow_router(&mut self) -> Result<(), Status> {
        let clears = self.router.lock().clears(self.worker).map_err(|_| Status::Gone)?;
        if clears != self.clears {
            self.clears = clears;
            self.forget();
            self.pending.clear();
        }
        Ok(())
    }

    /// Another process is in the worker's place. What waits came from it, or will be found to be older.
    fn begin_again(&mut self) {
        self.stats.restarts += 1;
        self.forget();
        self.clear_router();
    }

    fn forget(&mut self) {
        self.forget_names();
        self.order = Order::default();
        self.replay = None;
        self.group = None;
        self.parts = None;
        self.in_doubt = false;
    }

    /// Forgets what the engine's names of blocks stand for.
    fn forget_names(&mut self) {
        self.tiers.iter_mut().for_each(Held::clear);
        self.pages = None;
        self.twins = Twins::new();
    }

    fn receive(&mut self, number: u64, payload: &[u8], now: Time) {
        let batch = self.decode(payload);
        self.receive_batch(number, &batch, payload, now);
    }

    /// A batch that waited while others were replayed. Those may be of the next process in the worker's place: what
    /// the one before it had sent is over, even where its number is the next.
    fn receive_after_replay(&mut self, number: u64, payload: &[u8], now: Time) {
        let batch = self.decode(payload);
        if self.order.is_after(batch.made) {
            self.stats.duplicates += 1;
        } else {
            self.receive_batch(number, &batch, payload, now);
        }
    }

    fn receive_batch(&mut self, number: u64, batch: &Batch<'_>, payload: &[u8], now: Time) {
        match self.order.judge(number, batch.made) {
            Verdict::Next => self.apply(number, batch, now),
            Verdict::Duplicate => self.stats.duplicates += 1,
            Verdict::Gap(_) => self.wait(number, payload),
            Verdict::Restart => {
                self.begin_again();
                if number == 0 { self.apply(number, batch, now) } else { self.wait(number, payload) }
            }
        }
    }

    /// A batch with a lower number than those that a replay brings, which was asked for after `before`.
    fn receive_older(&mut self, before: Order, number: u64, payload: &[u8], now: Time) {
        let made = self.decode(payload).made;
        if before.judge(number, made) == Verdict::Restart {
            self.pending.clear();
            self.order = before;
            self.receive(number, payload, now);
        } else {
            self.stats.duplicates += 1;
        }
    }

    fn wait(&mut self, number: u64, payload: &[u8]) {
        self.stats.gaps += 1;
        self.pending.push(number, payload);
        self.ask();
    }

    fn ask(&mut self) {
        let from = self.order.next();
        self.replay.get_or_insert(Replay { from, rounds: 0, before: self.order });
    }

    /// What can be read of a payload. A batch that is no batch counts as one without events: its number is spent.
    fn decode<'a>(&mut self, payload: &'a [u8]) -> Batch<'a> {
        match event::decode(payload) {
            Ok(batch) => {
                self.stats.faults += batch.faults.len() as u64;
                self.stats.fault = batch.faults.first().copied().or(self.stats.fault);
                batch
            }
            Err(fault) => {
                self.stats.faults += 1;
                self.stats.fault = Some(fault);
                Batch { made: f64::NAN, ..Batch::default() }
            }
        }
    }

    /// Goes on at the first batch that is there; what is missing before it is lost.
    fn skip_gap(&mut self, now: Time) {
        let Some(first) = self.pending.first() else { return };
        let next = self.order.next();
        if first > next {
            self.lose(first - next, now);
        }
        self.order.skip_to(first);
    }

    /// `batches` are lost: what was confirmed is a guess from here on, and names of blocks mean nothing.
    fn lose(&mut self, batches: u64, now: Time) {
        self.stats.lost_batches += batches;
        self.stats.losses += 1;
        self.in_doubt = true;
        self.forget_names();
        self.router.forget(self.worker, Forget::Events, now);
    }

    fn apply(&mut self, number: u64, batch: &Batch<'_>, now: Time) {
        self.stats.batches += 1;
        for event in &batch.events {
            self.apply_event(event, now);
        }
        self.order.applied(number, batch.made);
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.router.lock().set_following(self.worker, false, 0);
    }
}
