//! Reservations: what was sent to each worker and is not done.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::block::{BlockHash, Units};
use crate::ids::{Slot, WorkerId};
use crate::load::active::{ActiveBlocks, Used};
use crate::load::observed::{Latest, Observed};
use crate::time::Time;

/// The weight of what was observed before, at each new observation: about the last ten count.
const MEMORY: f64 = 0.9;
/// A wait is never scaled by less or more than this: a fault of the clock or one odd worker must not run away.
const SCALE: (f64, f64) = (0.5, 2.0);

/// Requests in a row that get no reply until a worker is left alone. A worker that answers is not one of those,
/// whatever it answers: a busy one says 503.
const FAILURES: u32 = 3;
/// How long it is left alone at first; twice as long after each trial that fails, up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A booking of load on a worker. It is given back exactly once, to [`Ledger::close`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the load stays on the worker until the reservation is closed"]
pub struct Reservation {
    index: u32,
    generation: u32,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The reply came whole.
    Finished,
    /// The worker failed, and said so or broke off.
    Failed,
    /// No reply could be had from the worker: no connection, or one that ended first.
    Unreachable,
    /// Whoever asked left.
    Cancelled,
    /// Nobody said how it ended: the lease was dropped or ran out.
    Abandoned,
}

/// What a request will ask of its worker.
#[derive(Clone, Copy, Debug)]
pub struct Booking<'a> {
    /// Where it goes.
    pub worker: WorkerId,
    /// Its own prefill, in seconds.
    pub prefill_seconds: f64,
    /// Tokens of the prompt that the worker does not hold.
    pub uncached_tokens: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// The prompt's blocks.
    pub blocks: &'a [BlockHash],
    /// What they were cut from.
    pub units: Units,
    /// Blocks that the reply is expected to fill.
    pub output_blocks: u64,
    /// The prefix of which this request makes a new copy, if it makes one.
    pub copy_of: Option<u64>,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Where it was.
    pub worker: WorkerId,
    /// Tokens of its prompt and its reply.
    pub context_tokens: u64,
    /// Tokens of its reply, as far as they were reported.
    pub output_tokens: u32,
    /// The prompt's last full block.
    pub last_block: Option<BlockHash>,
    /// What that was cut from.
    pub units: Units,
    /// Tokens of its prompt that were not held when it was sent.
    pub uncached_tokens: u64,
}

/// The load of one worker, as sums over its open reservations.
#[derive(Debug, Default)]
pub struct Load {
    generation: u32,
    requests: u32,
    prefilling: u32,
    prefill_nanos: u64,
    queued_tokens: u64,
    context_tokens: u64,
    active: ActiveBlocks,
    observed_seconds: f64,
    predicted_seconds: f64,
    failures: u32,
    paused_until: Time,
    moves: u64,
    latest: Latest,
}

impl Load {
    /// Requests that have a reservation.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Requests that have not had their first token.
    pub fn prefilling(&self) -> u32 {
        self.prefilling
    }

    /// Uncached prompt tokens of requests that have not had their first token.
    pub fn queued_tokens(&self) -> u64 {
        self.queued_tokens
    }

    /// Context of the active requests, in tokens.
    pub fn context_tokens(&self) -> u64 {
        self.context_tokens
    }

    /// Distinct KV blocks that active requests use.
    pub fn active_blocks(&self) -> u64 {
        self.active.blocks()
    }

    /// Seconds until the prefill dispatched so far is done, as observed times say.
    pub fn wait_seconds(&self) -> f64 {
        self.prefill_nanos as f64 / 1e9 * self.scale()
    }

    /// Observed over predicted time to first token, within 0.5 and 2.
    pub fn scale(&self) -> f64 {
        if self.predicted_seconds > 1e-3 {
            (self.observed_seconds / self.predicted_seconds).clamp(SCALE.0, SCALE.1)
        } else {
            1.0
        }
    }

    /// Grows with each sign of life of the requests: a first token, more output, a reply that is whole.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// What the worker's own metrics say beyond these sums; nothing once that is stale.
    pub fn observed(&self, now: Time) -> Observed {
        self.latest.at(now)
    }

    /// Whether the worker's last requests failed, and it is not time to try it again.
    ///
    /// When it is time, one request is the trial: while that is open, others stay away.
    pub fn is_failing(&self, now: Time) -> bool {
        self.failures >= FAILURES && (now < self.paused_until || self.requests > 0)
    }

    fn failed(&mut self, now: Time) {
        self.failures = self.failures.saturating_add(1);
        if let Some(trials) = self.failures.checked_sub(FAILURES) {
            let pause = PAUSE.0.saturating_mul(1 << trials.min(10)).min(PAUSE.1);
            self.paused_until = now.after(pause);
        }
    }

    fn observe(&mut self, observed: f64, predicted: f64) {
        self.observed_seconds = MEMORY * self.observed_seconds + observed;
        self.predicted_seconds = MEMORY * self.predicted_seconds + predicted;
    }
}

#[derive(Debug)]
struct Entry {
    worker: WorkerId,
    booked_at: Time,
    /// The prefill share still booked; nothing once the first token came.
    prefill: Option<Prefill>,
    context_tokens: u64,
    output_tokens: u32,
    last_block: Option<BlockHash>,
    units: Units,
    uncached_tokens: u64,
    used: Used,
}

#[derive(Clone, Copy, Debug)]
struct Prefill {
    nanos: u64,
    uncached_tokens: u64,
    copy_of: Option<u64>,
    /// Seconds to the first token as the unscaled sums predicted them.
    predicted: f64,
}

#[derive(Debug, Default)]
struct Place {
    generation: u32,
    entry: Option<Entry>,
}

/// Every open reservation, and each worker's sums over them. Sums are in whole units, so they come back to zero.
#[derive(Debug, Default)]
pub struct Ledger {
    loads: Vec<Load>,
    places: Vec<Place>,
    free: Vec<u32>,
    copies: HashMap<u64, u32>,
    /// Open reservations by place and generation, and some that were closed, in the order of [`Ledger::next_open`].
    turns: VecDeque<(u32, u32)>,
}

impl Ledger {
    /// Takes in a worker without load.
    pub fn add_worker(&mut self, worker: WorkerId) {
        let index = worker.slot.index();
        if self.loads.len() <= index {
            self.loads.resize_with(index + 1, Load::default);
        }
        self.loads[index] = Load { generation: worker.generation, ..Load::default() };
    }

    /// Forgets a worker's load. Its open reservations book nothing any more, until they are closed.
    pub fn remove_worker(&mut self, worker: WorkerId) {
        if let Some(load) = self.current(worker) {
            // No worker has generation 0, so that no reservation finds this load.
            *load = Load::default();
        }
    }

    /// The load of the worker in `slot`; nothing where no worker ever was.
    pub fn load(&self, slot: Slot) -> Option<&Load> {
        self.loads.get(slot.index())
    }

    /// Takes what a worker's own metrics say; it counts until `until`, or until the next observation.
    pub fn observe(&mut self, worker: WorkerId, observed: Observed, until: Time) {
        if let Some(load) = self.current(worker) {
            load.latest = Latest::new(observed, until);
        }
    }

    /// Open reservations.
    pub fn open(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Workers that are computing `prefix` for the first time.
    pub fn copies_in_progress(&self, prefix: u64) -> u32 {
        self.copies.get(&prefix).copied().unwrap_or(0)
    }

    /// The next open request, in turn, and the last block of its prompt; none where the one whose turn it is has ended,
    /// or has no block. Asked for more often than requests come, it gets round to every one.
    pub fn next_open(&mut self) -> Option<(WorkerId, BlockHash)> {
        let (index, generation) = self.turns.pop_front()?;
        let place = self.places.get(index as usize).filter(|place| place.generation == generation)?;
        let entry = place.entry.as_ref()?;
        let next = entry.last_block.map(|block| (entry.worker, block));
        self.turns.push_back((index, generation));
        next
    }

    /// Books a request's load.
    pub fn book(&mut self, booking: &Booking<'_>, now: Time) -> Reservation {
        let nanos = Duration::from_secs_f64(booking.prefill_seconds.clamp(0.0, 1e6)).as_nanos() as u64;
        let mut prefill = Prefill {
            nanos,
            uncached_tokens: u64::from(booking.uncached_tokens),
            copy_of: booking.copy_of,
            predicted: nanos as f64 / 1e9,
        };
        let context_tokens = u64::from(booking.prompt_tokens);
        let mut used = Used::default();
        if let Some(load) = self.current(booking.worker) {
            prefill.predicted += load.prefill_nanos as f64 / 1e9;
            load.requests += 1;
            load.prefilling += 1;
            load.prefill_nanos += nanos;
            load.queued_tokens += prefill.uncached_tokens;
            load.context_tokens += context_tokens;
            used = load.active.add(booking.blocks, booking.output_blocks);
        }
        if let Some(prefix) = booking.copy_of {
            *self.copies.entry(prefix).or_default() += 1;
        }
        self.place(Entry {
            worker: booking.worker,
            booked_at: now,
            prefill: Some(prefill),
            context_tokens,
            output_tokens: 0,
            last_block: booking.blocks.last().copied(),
            units: booking.units,
            uncached_tokens: prefill.uncached_tokens,
            used,
        })
    }

    /// The first token came: the prefill share goes. Later calls change nothing.
    pub fn first_token(&mut self, reservation: &Reservation, now: Time) {
        let Some(entry) = self.entry(reservation) else { return };
        let observed = now.since(entry.booked_at).as_secs_f64();
        let worker = entry.worker;
        if let Some(prefill) = entry.prefill.take() {
            self.release_prefill(worker, &prefill);
            if let Some(load) = self.current(worker) {
                load.observe(observed, prefill.predicted);
                load.failures = 0;
                load.moves += 1;
            }
        }
    }

    /// The reply has `output_tokens` tokens so far: the context grows. A smaller number changes nothing.
    pub fn progress(&mut self, reservation: &Reservation, output_tokens: u32) {
        let Some(entry) = self.entry(reservation) else { return };
        let more = u64::from(output_tokens.saturating_sub(entry.output_tokens));
        entry.output_tokens = entry.output_tokens.max(output_tokens);
        entry.context_tokens += more;
        let worker = entry.worker;
        if let Some(load) = self.current(worker) {
            load.context_tokens += more;
            load.moves += u64::from(more > 0);
        }
    }

    /// Gives the load back, and says what has ended; nothing where the reservation was closed before.
    ///
    /// A worker that cannot be reached several times in a row is left alone for a while.
    pub fn close(&mut self, reservation: Reservation, outcome: Outcome, now: Time) -> Option<Ended> {
        let place = self.places.get_mut(reservation.index as usize)?;
        if place.generation != reservation.generation {
            return None;
        }
        let entry = place.entry.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(reservation.index);
        if let Some(prefill) = entry.prefill {
            self.release_prefill(entry.worker, &prefill);
        }
        let began = entry.prefill.is_none();
        if let Some(load) = self.current(entry.worker) {
            load.requests -= 1;
            load.context_tokens -= entry.context_tokens;
            load.active.release(&entry.used);
            match outcome {
                Outcome::Unreachable if !began => load.failed(now),
                Outcome::Finished => {
                    load.failures = 0;
                    load.moves += 1;
                }
                _ => {}
            }
        }
        let Entry { worker, context_tokens, output_tokens, last_block, units, uncached_tokens, .. } = entry;
        Some(Ended { worker, context_tokens, output_tokens, last_block, units, uncached_tokens })
    }

    fn release_prefill(&mut self, worker: WorkerId, prefill: &Prefill) {
        if let Some(load) = self.current(worker) {
            load.prefilling -= 1;
            load.prefill_nanos -= prefill.nanos;
            load.queued_tokens -= prefill.uncached_tokens;
        }
        let Some(prefix) = prefill.copy_of else { return };
        if let Some(count) = self.copies.get_mut(&prefix) {
            *count -= 1;
            if *count == 0 {
                self.copies.remove(&prefix);
            }
        }
    }

    /// The load of exactly this worker; nothing where another one took its slot.
    fn current(&mut self, worker: WorkerId) -> Option<&mut Load> {
        self.loads.get_mut(worker.slot.index()).filter(|load| load.generation == worker.generation)
    }

    fn entry(&mut self, reservation: &Reservation) -> Option<&mut Entry> {
        let place = self.places.get_mut(reservation.index as usize)?;
        place.entry.as_mut().filter(|_| place.generation == reservation.generation)
    }

    fn place(&mut self, entry: Entry) -> Reservation {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.entry = Some(entry);
        self.turns.push_back((index, place.generation));
        Reservation { index, generation: place.generation }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn worker(slot: u32, generation: u32) -> WorkerId {
        WorkerId { slot: Slot(slot), generation }
    }

    fn booking(worker: WorkerId, uncached: u32, prompt: u32) -> Booking<'static> {
        Booking {
            worker,
            prefill_seconds: f64::from(uncached) * 1e-4,
            uncached_tokens: uncached,
            prompt_tokens: prompt,
            blocks: &[],
            units: Units::Tokens,
            output_blocks: 3,
            copy_of: (uncached > 50).then_some(u64::from(prompt % 3)),
        }
    }

    /// The sums that the open reservations of one worker make, counted again from scratch.
    fn recount(ledger: &Ledger, of: WorkerId) -> (u32, u32, u64, u64, u64) {
        let entries =
            ledger.places.iter().filter_map(|place| place.entry.as_ref()).filter(|e| e.worker == of);
        entries.fold((0, 0, 0, 0, 0), |(n, p, nanos, queued, context), e| {
            let (one, pn, pq) = e.prefill.map_or((0, 0, 0), |p| (1, p.nanos, p.uncached_tokens));
            (n + 1, p + one, nanos + pn, queued + pq, context + e.context_tokens)
        })
    }

    #[derive(Clone, Debug)]
    enum Op {
        Book(u32, u32, u32),
        First(usize),
        Progress(usize, u32),
        Close(usize),
        Restart(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (0_u32..3, 0_u32..100, 100_u32..200).prop_map(|(w, u, l)| Op::Book(w, u, l)),
            2 => any::<usize>().prop_map(Op::First),
            2 => (any::<usize>(), 0_u32..50).prop_map(|(i, n)| Op::Progress(i, n)),
            2 => any::<usize>().prop_map(Op::Close),
            1 => (0_u32..3).prop_map(Op::Restart),
        ]
    }

    proptest! {
        #[test]
        fn sums_equal_a_recount_and_come_back_to_zero(ops in prop::collection::vec(op(), 1..200)) {
            let mut ledger = Ledger::default();
            let mut generations = [1_u32; 3];
            for slot in 0..3 {
                ledger.add_worker(worker(slot, 1));
            }
            let mut open: Vec<Reservation> = Vec::new();
            for (tick, op) in ops.into_iter().enumerate() {
                let now = Time::from_nanos(tick as u64 * 1_000_000);
                match op {
                    Op::Book(slot, uncached, prompt) => {
                        let worker = worker(slot, generations[slot as usize]);
                        open.push(ledger.book(&booking(worker, uncached, prompt), now));
                    }
                    Op::First(i) if !open.is_empty() => ledger.first_token(&open[i % open.len()], now),
                    Op::Progress(i, n) if !open.is_empty() => ledger.progress(&open[i % open.len()], n),
                    Op::Close(i) if !open.is_empty() => { ledger.close(open.swap_remove(i % open.len()), Outcome::Finished, now); }
                    Op::Restart(slot) => {
                        generations[slot as usize] += 1;
                        ledger.add_worker(worker(slot, generations[slot as usize]));
                    }
                    _ => {}
                }
                prop_assert_eq!(ledger.open(), open.len());
                for (slot, load) in ledger.loads.iter().enumerate() {
                    let sums = (load.requests, load.prefilling, load.prefill_nanos, load.queued_tokens, load.context_tokens);
                    prop_assert_eq!(sums, recount(&ledger, worker(slot as u32, generations[slot])));
                    prop_assert_eq!(load.active.blocks(), u64::from(load.requests) * 3);
                    prop_assert!((0.5..=2.0).contains(&load.scale()));
                }
            }
            for reservation in open {
                ledger.close(reservation, Outcome::Finished, Time::ZERO);
            }
            prop_assert!(ledger.copies.is_empty());
            prop_assert_eq!(ledger.open(), 0);
            for load in &ledger.loads {
                prop_assert_eq!((load.requests, load.prefill_nanos, load.context_tokens), (0, 0, 0));
            }
        }
    }

    #[test]
    fn waiting_follows_what_is_observed() {
        let mut ledger = Ledger::default();
        let w = worker(0, 1);
        ledger.add_worker(w);
        for _ in 0..20 {
            let reservation = ledger.book(&booking(w, 1000, 1000), Time::ZERO);
            ledger.first_token(&reservation, Time::from_secs_f64(0.15));
            ledger.close(reservation, Outcome::Finished, Time::ZERO);
        }
        let held = ledger.book(&booking(w, 1000, 1000), Time::ZERO);
        let wait = ledger.load(Slot(0)).unwrap().wait_seconds();
        assert!((wait - 0.15).abs() < 1e-6, "{wait}");
        ledger.close(held, Outcome::Finished, Time::ZERO);
    }

    #[test]
    fn every_open_request_has_its_turn() {
        let mut ledger = Ledger::default();
        let w = worker(0, 1);
        ledger.add_worker(w);
        let mut open = VecDeque::new();
        for number in 0..1000 {
            let blocks = [BlockHash(number)];
            open.push_back(ledger.book(&Booking { blocks: &blocks, ..booking(w, 10, 10) }, Time::ZERO));
            if open.len() > 7 {
                ledger.close(open.pop_front().unwrap(), Outcome::Finished, Time::ZERO);
            }
            for _ in 0..2 {
                if let Some((_, block)) = ledger.next_open() {
                    assert!(number - block.0 < 7);
                }
            }
            assert!(ledger.turns.len() <= 16, "{} turns", ledger.turns.len());
        }
        let seen: std::collections::HashSet<_> = (0..16).filter_map(|_| ledger.next_open()).collect();
        assert_eq!(seen.len(), 7);
        for one in open {
            ledger.close(one, Outcome::Finished, Time::ZERO);
        }
        (0..16).for_each(|_| assert_eq!(ledger.next_open(), None));
        assert_eq!(ledger.turns.len(), 0);
    }

    #[test]
    fn a_copy_is_in_progress_until_its_first_token() {
        let mut ledger = Ledger::default();
        let w = worker(0, 1);
        ledger.add_worker(w);
        let reservation = ledger.book(&Booking { copy_of: Some(7), ..booking(w, 10, 10) }, Time::ZERO);
        assert_eq!(ledger.copies_in_progress(7), 1);
        ledger.first_token(&reservation, Time::ZERO);
        assert_eq!(ledger.copies_in_progress(7), 0);
        ledger.close(reservation, Outcome::Finished, Time::ZERO);
    }

    #[test]
    fn a_worker_that_fails_is_left_alone_and_tried_again() {
        let mut ledger = Ledger::default();
        let w = worker(0, 1);
        ledger.add_worker(w);
        let fail = |ledger: &mut Ledger, now| {
            let reservation = ledger.book(&booking(w, 10, 10), now);
            ledger.close(reservation, Outcome::Unreachable, now);
        };
        let failing =
            |ledger: &Ledger, seconds| ledger.load(Slot(0)).unwrap().is_failing(Time::from_secs_f64(seconds));
        for _ in 1..FAILURES {
            fail(&mut ledger, Time::ZERO);
            assert!(!failing(&ledger, 0.0));
        }
        fail(&mut ledger, Time::ZERO);
        assert!(failing(&ledger, 0.9) && !failing(&ledger, 1.0));
        fail(&mut ledger, Time::from_secs_f64(1.0));
        assert!(failing(&ledger, 2.9) && !failing(&ledger, 3.0));
        let trial = ledger.book(&booking(w, 10, 10), Time::from_secs_f64(3.0));
        assert!(failing(&ledger, 3.0), "one request is the trial");
        ledger.first_token(&trial, Time::from_secs_f64(3.1));
        assert!(!failing(&ledger, 3.1));
        ledger.close(trial, Outcome::Unreachable, Time::from_secs_f64(3.2));
        assert!(!failing(&ledger, 3.2), "a reply that breaks off later says nothing of the next request");
    }
}
