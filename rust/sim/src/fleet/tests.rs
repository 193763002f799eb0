//! The seed scenario, and what a play must do whatever the route.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{Rng, *};
use crate::engine::{EngineConfig, StepTime};

/// A100 workers with room for 420,000 tokens.
fn a100s(workers: usize) -> Vec<EngineConfig> {
    vec![EngineConfig::default(); workers]
}

fn closed(clients: u32, requests: u64) -> Plan {
    let arrivals = Arrivals::Closed { clients };
    Plan { arrivals, requests, warm_up: requests / 5, patience: None, seed: 1 }
}

fn round_robin(workers: u64) -> impl FnMut(&Sending<'_>, f64) -> usize {
    move |sending: &Sending<'_>, _| (sending.id % workers) as usize
}

fn by_group(workers: u32) -> impl FnMut(&Sending<'_>, f64) -> usize {
    move |sending: &Sending<'_>, _| (sending.prompt.group % workers) as usize
}

/// Small prompts for plays whose figures do not matter.
fn small(groups: usize) -> SharedPrefixes {
    SharedPrefixes::new(&vec![1.0; groups], 640, (20, 200), 10, 1)
}

// An independent model of the same scenario gives 0.53, 2.2 requests a second and 40 s for round robin, and
// 0.97, 7.4 and 0.9 s for one worker group for each agent. The tail of round robin varies with the seed.
#[test]
fn the_seed_scenario_agrees_with_an_independent_model() {
    let play = |route: &mut dyn Route| {
        run(&a100s(4), &closed(100, 1000), &mut SharedPrefixes::agents(1), route).unwrap()
    };
    let (spread, grouped) = (play(&mut round_robin(4)), play(&mut by_group(4)));
    println!("round robin  {spread}\none for each {grouped}");
    assert!((0.50..0.56).contains(&spread.hit_rate) && (0.96..0.98).contains(&grouped.hit_rate));
    assert!((2.0..2.4).contains(&spread.goodput) && (7.0..7.9).contains(&grouped.goodput));
    assert!((35.0..65.0).contains(&spread.ttft.p99) && (0.7..1.2).contains(&grouped.ttft.p99));
    assert!(spread.recompute_share > 0.6 && grouped.recompute_share < 0.01);
    assert!(spread.copies_per_prefix > 2.0 && grouped.copies_per_prefix == 1.0);
}

/// Eight rounds in which each of eight groups has its turn, in a random order.
struct EightByEight {
    order: Vec<u32>,
    shared: SharedPrefixes,
}

impl EightByEight {
    fn new(seed: u64) -> EightByEight {
        let mut rng = Rng::new(seed, 0);
        let mut order: Vec<u32> = (0..64).map(|request| request % 8).collect();
        for round in order.chunks_mut(8) {
            (1..8).for_each(|last| round.swap(last as usize, rng.within(0, last) as usize));
        }
        EightByEight { order, shared: SharedPrefixes::new(&[1.0; 8], 2560, (64, 64), 16, seed) }
    }
}

impl Prompts for EightByEight {
    fn prompt(&mut self, request: u64, client: u32, rng: &mut Rng) -> Prompt {
        let group = self.order[request as usize];
        let own = self.shared.prompt(request, client, rng);
        let prefix = &self.shared.prefixes()[group as usize];
        let tail = &own.tokens[own.prefix_tokens as usize..];
        Prompt { tokens: prefix.iter().chain(tail).copied().collect(), group, ..own }
    }
}

// Two real vLLM 0.32 engines of 512 blocks of 32 tokens gave 0.85 by group and 0.50 to 0.58 round robin.
// Round robin depends on the order: here it is 0.51 to 0.72, and the orders of those runs are not known.
#[test]
fn hit_rates_agree_with_real_engines() {
    let engine =
        EngineConfig { block_size: 32, num_blocks: 512, max_model_len: 8192, ..EngineConfig::default() };
    let play = |seed, route: &mut dyn Route| {
        let plan = Plan { warm_up: 0, seed, ..closed(2, 64) };
        let engines = [engine.clone(), engine.clone()];
        run(&engines, &plan, &mut EightByEight::new(seed), route).unwrap().hit_rate
    };
    let mean = |route: &mut dyn Route| (0..20).map(|seed| play(seed, route)).sum::<f64>() / 20.0;
    let (grouped, spread) = (mean(&mut by_group(2)), mean(&mut round_robin(2)));
    println!("by group {grouped:.3}, round robin {spread:.3}");
    assert!((0.84..0.86).contains(&grouped), "{grouped}");
    assert!((0.50..0.65).contains(&spread), "{spread}");
}

#[test]
fn equal_seeds_give_equal_plays_and_others_do_not() {
    let play = |seed| {
        let plan = Plan { seed, ..closed(10, 60) };
        run(&a100s(2), &plan, &mut small(4), &mut round_robin(2)).unwrap()
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}

#[test]
fn routes_under_one_seed_get_the_same_prompts() {
    let prompts = |workers: u64| {
        let mut seen = HashMap::new();
        let mut route = |sending: &Sending<'_>, _| {
            seen.insert(sending.request, sending.prompt.tokens.clone());
            (sending.id % workers) as usize
        };
        run(&a100s(4), &closed(10, 60), &mut small(4), &mut route).unwrap();
        seen
    };
    assert_eq!(prompts(1), prompts(4));
}

#[test]
fn a_closed_workload_keeps_its_clients_busy_and_no_more() {
    let mut open = 0_i64;
    let mut most = 0;
    struct Counting<'a>(&'a mut i64, &'a mut i64);
    impl Route for Counting<'_> {
        fn route(&mut self, sending: &Sending<'_>, _: f64) -> Option<usize> {
            *self.0 += 1;
            *self.1 = (*self.1).max(*self.0);
            Some((sending.id % 2) as usize)
        }
        fn closed(&mut self, _: u64, how: Closed, _: u32, _: f64) {
            assert_eq!(how, Closed::Finished);
            *self.0 -= 1;
        }
    }
    let report = run(&a100s(2), &closed(7, 50), &mut small(3), &mut Counting(&mut open, &mut most)).unwrap();
    assert_eq!((open, most), (0, 7));
    assert_eq!((report.outcomes.len(), report.success, report.sends_per_request), (50, 1.0, 1.0));
}

#[test]
fn an_open_workload_keeps_its_rates() {
    let phases = vec![
        Phase { seconds: 100.0, rate: 5.0 },
        Phase { seconds: 50.0, rate: 20.0 },
        Phase { seconds: 1.0, rate: 5.0 },
    ];
    let plan = Plan { arrivals: Arrivals::Open { phases }, ..closed(0, 2500) };
    let report = run(&a100s(4), &plan, &mut small(4), &mut round_robin(4)).unwrap();
    let arrived = |from: f64, to: f64| {
        report.outcomes.iter().filter(|outcome| (from..to).contains(&outcome.arrived)).count() as f64
    };
    // Poisson counts of 500, 1000 and 500, within four standard deviations.
    for (from, to, mean) in [(0.0, 100.0, 500.0_f64), (100.0, 150.0, 1000.0), (150.0, 250.0, 500.0)] {
        assert!(
            (arrived(from, to) - mean).abs() < 4.0 * mean.sqrt(),
            "{} in {from}..{to}",
            arrived(from, to)
        );
    }
}

/// Prompts that share nothing.
struct Distinct;

impl Prompts for Distinct {
    fn prompt(&mut self, _: u64, _: u32, rng: &mut Rng) -> Prompt {
        let tokens = (0..30_000).map(|_| rng.within(0, 99_999)).collect();
        Prompt { tokens, prefix_tokens: 30_000, group: 0, output_tokens: 1, space: Default::default() }
    }
}

#[test]
fn work_for_clients_that_left_is_in_the_way() {
    // Ten cold prefills of 3 s at once, patience for two of them at a time, and for eight in all.
    let play = |aborts| {
        let patience = Some(Patience { ttft: 8.0, retries: 2, aborts });
        let plan = Plan { warm_up: 0, patience, ..closed(10, 10) };
        run(&a100s(1), &plan, &mut Distinct, &mut round_robin(1)).unwrap()
    };
    let (aborted, kept) = (play(true), play(false));
    assert_eq!(kept.success, 0.2);
    assert!(aborted.success >= 0.7, "{aborted}");
    let answered = |report: &Report| report.outcomes.iter().map(|o| o.e2e.is_some()).collect::<Vec<_>>();
    assert_eq!(answered(&kept)[..3], [true, true, false], "first come, first served");
    for lost in kept.outcomes.iter().filter(|outcome| outcome.e2e.is_none()) {
        assert_eq!((lost.sends, lost.ttft), (3, None));
    }
}

#[test]
fn what_a_route_refuses_is_counted_and_over() {
    struct Refusing;
    impl Route for Refusing {
        fn route(&mut self, sending: &Sending<'_>, _: f64) -> Option<usize> {
            // The second worker does not exist, which is a refusal, too.
            [Some(0), None, Some(1)][(sending.request % 3) as usize]
        }
    }
    let plan = Plan { warm_up: 0, ..closed(2, 30) };
    let report = run(&a100s(1), &plan, &mut small(1), &mut Refusing).unwrap();
    assert_eq!(report.refused, 20);
    assert_eq!(report.outcomes.iter().filter(|outcome| outcome.e2e.is_some()).count(), 10);
}

#[test]
fn kv_events_reach_the_route() {
    #[derive(Default)]
    struct Listening(usize);
    impl Route for Listening {
        fn route(&mut self, _: &Sending<'_>, _: f64) -> Option<usize> {
            Some(0)
        }
        fn kv_events(&mut self, worker: usize, events: &[KvEvent], _: f64) {
            assert_eq!(worker, 0);
            self.0 += events.len();
        }
    }
    let mut route = Listening::default();
    let engines = vec![EngineConfig { kv_events: true, ..EngineConfig::default() }];
    run(&engines, &closed(1, 5), &mut small(1), &mut route).unwrap();
    assert!(route.0 >= 5);
}

#[test]
fn what_cannot_be_played_is_refused() {
    let play = |engines: &[EngineConfig], plan: &Plan| {
        run(engines, plan, &mut small(1), &mut round_robin(1)).unwrap_err().to_string()
    };
    assert_eq!(play(&[], &closed(1, 5)), "engines is [], and must be at least one");
    let plan = Plan { warm_up: 5, ..closed(1, 5) };
    assert_eq!(play(&a100s(1), &plan), "warm_up is 5, and must be less than the 5 requests");
    assert_eq!(play(&a100s(1), &closed(0, 5)), "clients is 0, and must be at least 1");
    for phases in
        [vec![], vec![Phase { seconds: 1.0, rate: 0.0 }], vec![Phase { seconds: f64::NAN, rate: 1.0 }]]
    {
        let plan = Plan { arrivals: Arrivals::Open { phases }, ..closed(1, 5) };
        assert!(play(&a100s(1), &plan).starts_with("phases is "));
    }
}

#[test]
fn quantiles_are_values_that_occurred() {
    let spread = Spread::of((1..=200).rev().map(f64::from));
    assert_eq!(spread, Spread { p50: 100.0, p99: 198.0 });
    assert_eq!(Spread::of([7.0].into_iter()), Spread { p50: 7.0, p99: 7.0 });
    assert_eq!(Spread::of(std::iter::empty()), Spread::default());
}

#[test]
fn popular_groups_get_their_share() {
    let mut prompts = SharedPrefixes::new(&SharedPrefixes::zipf(3, 1.0), 16, (1, 2), 1, 1);
    let mut counts = [0_u32; 3];
    for request in 0..6000 {
        counts[prompts.prompt(request, 0, &mut Rng::new(1, request)).group as usize] += 1;
    }
    // 6 : 3 : 2 of eleven.
    for (count, share) in counts.iter().zip([6.0, 3.0, 2.0]) {
        assert!((f64::from(*count) / 6000.0 - share / 11.0).abs() < 0.03, "{counts:?}");
    }
}

/// Counts what a route is told about each sending.
#[derive(Default)]
struct Auditing {
    workers: usize,
    refuse_every: u64,
    /// For each open sending, whether its first token came.
    open: HashMap<u64, bool>,
    taken: u64,
    closed: u64,
    last: f64,
}

impl Auditing {
    fn at(&mut self, now: f64) {
        assert!(now >= self.last, "time runs backwards");
        self.last = now;
    }
}

impl Route for Auditing {
    fn route(&mut self, sending: &Sending<'_>, now: f64) -> Option<usize> {
        self.at(now);
        if sending.id.is_multiple_of(self.refuse_every) {
            return None;
        }
        self.taken += 1;
        assert!(self.open.insert(sending.id, false).is_none());
        Some(sending.id as usize % self.workers)
    }

    fn first_token(&mut self, id: u64, now: f64) {
        self.at(now);
        let seen = self.open.insert(id, true);
        assert_eq!(seen, Some(false), "one first token, of an open sending");
    }

    fn closed(&mut self, id: u64, how: Closed, _: u32, now: f64) {
        self.at(now);
        self.closed += 1;
        let first = self.open.remove(&id).expect("an open sending is closed once");
        assert!(how == Closed::Abandoned || first, "no end before the first token");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_sending_is_closed_once(
        seed in any::<u64>(),
        workers in 1_usize..4,
        clients in 0_u32..12,
        refuse_every in 2_u64..20,
        ttft in 0.01_f64..2.0,
        retries in 0_u32..3,
        aborts in any::<bool>(),
        blocks in 60_u32..200,
    ) {
        let arrivals = match clients {
            0 => Arrivals::Open { phases: vec![Phase { seconds: 1.0, rate: 20.0 }] },
            clients => Arrivals::Closed { clients },
        };
        let plan = Plan { arrivals, requests: 80, warm_up: 10, patience: Some(Patience { ttft, retries, aborts }), seed };
        let engine = EngineConfig {
            num_blocks: blocks + 1, max_model_len: blocks * 16, step_time: StepTime::H100_8B, ..EngineConfig::default()
        };
        let mut route = Auditing { workers, refuse_every, ..Auditing::default() };
        let report = run(&vec![engine; workers], &plan, &mut small(3), &mut route).unwrap();
        prop_assert!(route.open.is_empty());
        prop_assert_eq!(route.taken, route.closed);
        let sends: u32 = report.outcomes.iter().map(|outcome| outcome.sends).sum();
        prop_assert_eq!(u64::from(sends), route.taken + report.refused);
        prop_assert_eq!(report.outcomes.len(), 80);
        for outcome in &report.outcomes {
            prop_assert!(outcome.sends >= 1 && outcome.sends <= retries + 1);
            prop_assert!(outcome.e2e.is_none() || outcome.e2e >= outcome.ttft);
        }
    }
}
