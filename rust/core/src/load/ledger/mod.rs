//! Reservations: what was sent to each worker and is not done.

mod load;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::block::{BlockHash, Units};
use crate::ids::{Slot, WorkerId};
use crate::load::active::Used;
use crate::load::observed::{Latest, Observed};
use crate::time::Time;
pub use load::Load;

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
