//! The ledger against sums made anew, and what its figures mean.

use proptest::prelude::*;

use super::load::FAILURES;
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
    let entries = ledger.places.iter().filter_map(|place| place.entry.as_ref()).filter(|e| e.worker == of);
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
