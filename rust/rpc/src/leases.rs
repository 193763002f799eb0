//! Reservations of callers that hold no handle: a bounded table of leases by number.

use std::collections::HashMap;
use std::time::Duration;

use warmroute_core::time::Time;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// A reservation as its caller names it: a place, and random bits that say which booking of that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReservationId(pub u64);

impl ReservationId {
    fn new(place: u32, tag: u32) -> ReservationId {
        ReservationId(u64::from(tag) << 32 | u64::from(place))
    }

    fn place(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A stream that owns reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(u64);

/// What ends a reservation that nobody reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Its lease time.
    Caller,
    /// The end of the stream.
    Stream(StreamId),
}

/// What the table counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseStats {
    /// Open reservations.
    pub open: usize,
    /// Open streams.
    pub streams: usize,
    /// Reservations whose lease time ran out.
    pub expired: u64,
    /// Reservations that ended with their stream.
    pub left_with_stream: u64,
    /// Reservations that were refused because as many were open as may be.
    pub refused: u64,
}

/// A table of leases `L`. It owns them: whatever leaves the table is given back to be closed or dropped.
#[derive(Debug)]
pub struct Leases<L> {
    lease_time: Duration,
    limit: usize,
    places: Vec<Place<L>>,
    free: Vec<u32>,
    /// In order of renewal: the first one expires first, since all lease times are equal.
    timed: List,
    streams: HashMap<StreamId, List>,
    next_stream: u64,
    /// The latest moment that anyone told: renewals stay in order whatever the order of the callers.
    now: Time,
    stats: LeaseStats,
}

#[derive(Debug)]
struct Place<L> {
    tag: u32,
    entry: Option<Entry<L>>,
}

#[derive(Debug)]
struct Entry<L> {
    lease: L,
    owner: Owner,
    renewed_at: Time,
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

impl<L> Leases<L> {
    /// A table of at most `limit` reservations, each of which lasts `lease_time` without a renewal.
    pub fn new(limit: usize, lease_time: Duration) -> Leases<L> {
        Leases {
            lease_time,
            limit: limit.min(NONE as usize),
            places: Vec::new(),
            free: Vec::new(),
            timed: EMPTY,
            streams: HashMap::new(),
            next_stream: 0,
            now: Time::ZERO,
            stats: LeaseStats::default(),
        }
    }

    /// How long a reservation lasts without a renewal.
    pub fn lease_time(&self) -> Duration {
        self.lease_time
    }

    /// The counters and the state of the moment.
    pub fn stats(&self) -> LeaseStats {
        LeaseStats { open: self.open(), streams: self.streams.len(), ..self.stats }
    }

    /// Open reservations.
    pub fn open(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether there is room for one more; a table that has none counts the refusal.
    pub fn has_room(&mut self) -> bool {
        let has = self.open() < self.limit;
        self.stats.refused += u64::from(!has);
        has
    }

    /// Takes in a lease. `random` keeps its number from being guessed.
    ///
    /// # Errors
    /// The lease itself where the table is full or the stream has ended.
    pub fn insert(&mut self, lease: L, owner: Owner, now: Time, random: u64) -> Result<ReservationId, L> {
        let known = match owner {
            Owner::Caller => true,
            Owner::Stream(stream) => self.streams.contains_key(&stream),
        };
        if !known || !self.has_room() {
            return Err(lease);
        }
        let renewed_at = self.pass(now);
        let entry = Some(Entry { lease, owner, renewed_at, before: NONE, after: NONE });
        // Not zero, so that no number is zero.
        let tag = ((random >> 32) as u32).max(1);
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Place { tag, entry };
                place
            }
            None => {
                self.places.push(Place { tag, entry });
                (self.places.len() - 1) as u32
            }
        };
        self.append(place, owner);
        Ok(ReservationId::new(place, tag))
    }

    /// The lease of this number, renewed; nothing where it has ended.
    pub fn renew(&mut self, id: ReservationId, now: Time) -> Option<(&L, Owner)> {
        let owner = self.entry(id)?.owner;
        let now = self.pass(now);
        if owner == Owner::Caller {
            let place = id.place() as u32;
            self.unlink(place);
            self.append(place, owner);
        }
        let entry = self.places.get_mut(id.place())?.entry.as_mut()?;
        entry.renewed_at = now;
        Some((&entry.lease, owner))
    }

    /// Takes out the lease of this number; nothing where it has ended.
    pub fn remove(&mut self, id: ReservationId) -> Option<L> {
        self.entry(id)?;
        self.take(id.place() as u32)
    }

    /// Takes out a lease whose time ran out; nothing where there is none (any more).
    pub fn expire(&mut self, now: Time) -> Option<L> {
        let now = self.pass(now);
        let first = self.timed.first;
        let entry = self.places.get(first as usize)?.entry.as_ref()?;
        if now < entry.renewed_at.after(self.lease_time) {
            return None;
        }
        self.stats.expired += 1;
        self.take(first)
    }

    /// Opens a stream that may own reservations.
    pub fn open_stream(&mut self) -> StreamId {
        let stream = StreamId(self.next_stream);
        self.next_stream += 1;
        self.streams.insert(stream, EMPTY);
        stream
    }

    /// Whether the stream has no reservation.
    pub fn is_empty(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_none_or(|list| list.first == NONE)
    }

    /// Ends a stream, and takes out the leases that it owns.
    pub fn end_stream(&mut self, stream: StreamId) -> Vec<L> {
        let mut leases = Vec::new();
        while let Some(List { first, .. }) = self.streams.get(&stream).filter(|list| list.first != NONE) {
            leases.extend(self.take(*first));
        }
        self.streams.remove(&stream);
        self.stats.left_with_stream += leases.len() as u64;
        leases
    }

    fn pass(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    fn entry(&self, id: ReservationId) -> Option<&Entry<L>> {
        self.places.get(id.place()).filter(|place| place.tag == id.tag())?.entry.as_ref()
    }

    fn take(&mut self, place: u32) -> Option<L> {
        self.unlink(place);
        let entry = self.places.get_mut(place as usize)?.entry.take()?;
        self.free.push(place);
        Some(entry.lease)
    }

    fn list(&mut self, owner: Owner) -> Option<&mut List> {
        match owner {
            Owner::Caller => Some(&mut self.timed),
            Owner::Stream(stream) => self.streams.get_mut(&stream),
        }
    }

    fn at(&mut self, place: u32) -> Option<&mut Entry<L>> {
        self.places.get_mut(place as usize)?.entry.as_mut()
    }

    fn append(&mut self, place: u32, owner: Owner) {
        let Some(list) = self.list(owner) else { return };
        let last = std::mem::replace(&mut list.last, place);
        if last == NONE {
            list.first = place;
        }
        if let Some(entry) = self.at(last) {
            entry.after = place;
        }
        if let Some(entry) = self.at(place) {
            (entry.before, entry.after) = (last, NONE);
        }
    }

    fn unlink(&mut self, place: u32) {
        let Some(Entry { before, after, owner, .. }) = self.at(place) else { return };
        let (before, after, owner) = (*before, *after, *owner);
        if let Some(entry) = self.at(before) {
            entry.after = after;
        } else if let Some(list) = self.list(owner) {
            list.first = after;
        }
        if let Some(entry) = self.at(after) {
            entry.before = before;
        } else if let Some(list) = self.list(owner) {
            list.last = before;
        }
    }
}
