//! The table of leases against a map that is searched.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use warmroute_core::time::Time;
use warmroute_rpc::leases::{Leases, Owner, ReservationId, StreamId};

const LIMIT: usize = 12;
const LEASE_TIME: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
enum Op {
    Insert(Option<usize>),
    Renew(usize),
    Remove(usize),
    Expire,
    Open,
    End(usize),
    Pass(u64),
    Back(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => proptest::option::of(any::<usize>()).prop_map(Op::Insert),
        4 => any::<usize>().prop_map(Op::Renew),
        2 => any::<usize>().prop_map(Op::Remove),
        2 => Just(Op::Expire),
        1 => Just(Op::Open),
        1 => any::<usize>().prop_map(Op::End),
        3 => (0_u64..40).prop_map(Op::Pass),
        1 => (0_u64..10).prop_map(Op::Back),
    ]
}

/// What is known of each lease, found by looking at all of them.
#[derive(Default)]
struct Model {
    open: BTreeMap<u32, (Owner, Time)>,
    ids: Vec<(ReservationId, u32)>,
    streams: Vec<StreamId>,
    latest: Time,
    expired: u64,
    left: u64,
}

impl Model {
    fn id(&self, pick: usize) -> Option<(ReservationId, u32)> {
        (!self.ids.is_empty()).then(|| self.ids[pick % self.ids.len()])
    }
}

fn step(table: &mut Leases<u32>, model: &mut Model, op: &Op, now: &mut Time, turn: u32) {
    match op {
        Op::Insert(stream) => {
            let streams = &model.streams;
            let owner = match stream {
                Some(pick) if !streams.is_empty() => Owner::Stream(streams[pick % streams.len()]),
                _ => Owner::Caller,
            };
            let made = table.insert(turn, owner, *now, u64::from(turn) << 32 | 5);
            assert_eq!(made.is_ok(), model.open.len() < LIMIT);
            if let Ok(id) = made {
                model.latest = model.latest.max(*now);
                model.open.insert(turn, (owner, model.latest));
                model.ids.push((id, turn));
            }
        }
        Op::Renew(pick) => {
            let Some((id, lease)) = model.id(*pick) else { return };
            let found = table.renew(id, *now).map(|(lease, owner)| (*lease, owner));
            assert_eq!(found, model.open.get(&lease).map(|(owner, _)| (lease, *owner)));
            if found.is_some() {
                model.latest = model.latest.max(*now);
                model.open.get_mut(&lease).unwrap().1 = model.latest;
            }
        }
        Op::Remove(pick) => {
            let Some((id, lease)) = model.id(*pick) else { return };
            assert_eq!(table.remove(id), model.open.remove(&lease).map(|_| lease));
        }
        Op::Expire => {
            model.latest = model.latest.max(*now);
            let mut expired: Vec<u32> = std::iter::from_fn(|| table.expire(*now)).collect();
            expired.sort_unstable();
            let late =
                |(owner, at): &(Owner, Time)| *owner == Owner::Caller && model.latest >= at.after(LEASE_TIME);
            let expected: Vec<u32> =
                model.open.iter().filter(|(_, e)| late(e)).map(|(lease, _)| *lease).collect();
            assert_eq!(expired, expected);
            model.open.retain(|lease, _| !expected.contains(lease));
            model.expired += expected.len() as u64;
        }
        Op::Open => model.streams.push(table.open_stream()),
        Op::End(pick) => {
            if model.streams.is_empty() {
                return;
            }
            let stream = model.streams.swap_remove(pick % model.streams.len());
            let owned = |(owner, _): &(Owner, Time)| *owner == Owner::Stream(stream);
            let expected: Vec<u32> =
                model.open.iter().filter(|(_, e)| owned(e)).map(|(lease, _)| *lease).collect();
            assert_eq!(table.is_empty(stream), expected.is_empty());
            let mut left = table.end_stream(stream);
            left.sort_unstable();
            assert_eq!(left, expected);
            model.open.retain(|lease, _| !expected.contains(lease));
            model.left += expected.len() as u64;
            assert_eq!(table.insert(turn, Owner::Stream(stream), *now, 0), Err(turn));
        }
        Op::Pass(seconds) => *now = now.after(Duration::from_secs(*seconds)),
        Op::Back(seconds) => *now = Time::from_nanos(now.as_nanos().saturating_sub(seconds * 1_000_000_000)),
    }
}

proptest! {
    #[test]
    fn the_table_does_what_a_search_finds(ops in prop::collection::vec(op(), 1..300)) {
        let mut table = Leases::new(LIMIT, LEASE_TIME);
        let (mut model, mut now) = (Model::default(), Time::ZERO);
        for (turn, op) in ops.iter().enumerate() {
            step(&mut table, &mut model, op, &mut now, turn as u32 + 1);
            let stats = table.stats();
            prop_assert_eq!(stats.open, model.open.len());
            prop_assert_eq!(stats.streams, model.streams.len());
            prop_assert_eq!((stats.expired, stats.left_with_stream), (model.expired, model.left));
        }
    }
}

#[test]
fn a_number_is_not_zero_and_not_given_twice() {
    let mut table = Leases::new(1, LEASE_TIME);
    let first = table.insert('a', Owner::Caller, Time::ZERO, 0).unwrap();
    assert_ne!(first.0, 0);
    assert_eq!(table.remove(first), Some('a'));
    let second = table.insert('b', Owner::Caller, Time::ZERO, 7 << 32).unwrap();
    assert_ne!(first, second);
    assert_eq!(table.renew(first, Time::ZERO), None);
    assert_eq!(table.remove(ReservationId(u64::MAX)), None);
    assert_eq!(table.insert('c', Owner::Caller, Time::ZERO, 9 << 32), Err('c'));
    assert_eq!(table.stats().refused, 1);
}
