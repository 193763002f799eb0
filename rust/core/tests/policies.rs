//! Each policy against its rule written out again, as plainly as it can be.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use warmroute_core::calibration::Calibration;
use warmroute_core::config::{Policy, RouterConfig};
use warmroute_core::ids::Slot;
use warmroute_core::select::{Candidate, Pick, Question, Reason, pick};

const PRICES: Calibration = Calibration::A100_8B;

fn candidate(slot: u32) -> Candidate {
    Candidate {
        slot: Slot(slot),
        name_hash: u64::from(slot + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        overlap_tokens: 0,
        lower_tokens: 0,
        wait_seconds: 0.0,
        queued_tokens: 0,
        requests: 0,
        context_tokens: 0,
        full: false,
    }
}

fn question(prompt_tokens: u32) -> Question {
    Question {
        prompt_tokens,
        output_tokens: 120.0,
        prefix: 77,
        head: 78,
        session: 79,
        copies_in_progress: 0,
        turn: 0,
        random: 80,
    }
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (0_u32..9, 0_u32..40, 0_u32..6, any::<bool>(), prop_oneof![2 => Just(0_u32), 1 => 0..9_u32]);
    prop::collection::vec(one, 1..8).prop_map(|fleet| {
        let each = fleet.into_iter().enumerate();
        each.map(|(slot, (held, wait, requests, full, lower))| Candidate {
            overlap_tokens: held * 1000,
            lower_tokens: lower.min(8 - held) * 1000,
            wait_seconds: f64::from(wait) * 0.2,
            queued_tokens: u64::from(wait) * 1500,
            requests,
            context_tokens: u64::from(requests) * 8000,
            full: full && requests > 2,
            ..candidate(slot as u32)
        })
        .collect()
    })
}

fn choose(policy: Policy, question: &Question, fleet: &[Candidate]) -> Pick {
    pick(question, fleet, &RouterConfig { policy, ..RouterConfig::default() }, &PRICES).unwrap()
}

/// docs/routing.md, "Cost".
fn cost(question: &Question, worker: &Candidate) -> f64 {
    let (l, h) = (f64::from(question.prompt_tokens), f64::from(worker.overlap_tokens));
    let t = f64::from(worker.lower_tokens);
    let u = (l - h - t).max(0.0);
    let prefill = PRICES.a1 * u + PRICES.a2 * u * (l - u / 2.0);
    let n = f64::from(worker.requests);
    let decode = question.output_tokens * (PRICES.d2 * worker.context_tokens as f64 + PRICES.d1 * n);
    worker.wait_seconds + 0.1 * PRICES.a1 * t + prefill * (1.0 + n) + decode
}

fn least(fleet: &[Candidate], key: impl Fn(&Candidate) -> f64) -> f64 {
    fleet.iter().map(key).fold(f64::INFINITY, f64::min)
}

/// docs/routing.md, "Pick: priced affinity". Says which places are right, and why.
fn priced(question: &Question, fleet: &[Candidate]) -> (Vec<usize>, Reason) {
    let usable: Vec<usize> = {
        let free: Vec<_> = (0..fleet.len()).filter(|i| !fleet[*i].full).collect();
        if free.is_empty() { (0..fleet.len()).collect() } else { free }
    };
    let l = f64::from(question.prompt_tokens);
    let cold = PRICES.a1 * l + PRICES.a2 * l * l / 2.0;
    let worth = |i: &usize| f64::from(fleet[*i].overlap_tokens) + 0.9 * f64::from(fleet[*i].lower_tokens);
    let longest = usable.iter().map(worth).fold(0.0, f64::max);
    let (warm, rest): (Vec<usize>, Vec<usize>) = usable.iter().partition(|i| {
        let h = worth(i);
        h > 0.0 && h >= 0.5 * l && h >= longest - 0.1 * l
    });
    let alike = |places: &[usize]| -> Vec<usize> {
        let best = places.iter().map(|i| cost(question, &fleet[*i])).fold(f64::INFINITY, f64::min);
        places.iter().copied().filter(|i| cost(question, &fleet[*i]) <= best + 0.25 * cold + 1e-9).collect()
    };
    if warm.is_empty() {
        return (alike(&rest), Reason::Cold);
    }
    let cheapest = warm.iter().map(|i| cost(question, &fleet[*i])).fold(f64::INFINITY, f64::min);
    let finished = (warm.len() as u32).saturating_sub(question.copies_in_progress);
    let may_copy = question.copies_in_progress < 2 + finished;
    // The stable pick is one of several that are alike: where some of them are worth the spill and some are not,
    // either answer is in the rule.
    let worth = |i: &usize| cheapest - cost(question, &fleet[*i]) > cold.max(0.1);
    let others = alike(&rest);
    let spills: Vec<usize> = others.iter().copied().filter(worth).collect();
    if may_copy && !others.is_empty() && spills.len() == others.len() {
        return (spills, Reason::Spill);
    }
    let best = warm.into_iter().filter(|i| cost(question, &fleet[*i]) <= cheapest + 1e-9).collect();
    (best, Reason::Warm)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn priced_affinity_follows_its_rule(fleet in candidates(), copies in 0_u32..4, prefix in any::<u64>()) {
        let question = Question { copies_in_progress: copies, prefix, ..question(9000) };
        let chosen = choose(Policy::PricedAffinity, &question, &fleet);
        let (right, reason) = priced(&question, &fleet);
        if chosen.reason == Reason::Spill && reason == Reason::Warm {
            // Only some of those alike are worth it: the one chosen must be.
            let cheapest = right.iter().map(|i| cost(&question, &fleet[*i])).fold(f64::INFINITY, f64::min);
            let l = 9000.0;
            let cold = PRICES.a1 * l + PRICES.a2 * l * l / 2.0;
            prop_assert!(cheapest - cost(&question, &fleet[chosen.index]) > cold.max(0.1));
        } else {
            prop_assert_eq!(chosen.reason, reason);
            prop_assert!(right.contains(&chosen.index), "{:?} is not one of {:?}", chosen, right);
        }
    }

    #[test]
    fn each_alternative_follows_its_rule(fleet in candidates(), turn in 0_u64..20, random in any::<u64>()) {
        let question = Question { turn, random, ..question(9000) };
        let requests = |c: &Candidate| f64::from(c.requests);
        let of = |policy| choose(policy, &question, &fleet).index;
        prop_assert_eq!(of(Policy::RoundRobin), turn as usize % fleet.len());
        prop_assert_eq!(requests(&fleet[of(Policy::LeastRequests)]), least(&fleet, requests));

        let two = &fleet[of(Policy::PowerOfTwo)];
        let most = fleet.iter().map(|c| c.requests).max().unwrap();
        let alone = fleet.len() < 2 || fleet.iter().filter(|c| c.requests == most).count() > 1;
        prop_assert!(alone || two.requests < most, "the busiest of all is never the better of two");

        let total: f64 = fleet.iter().map(requests).sum();
        let bound = (1.25 * (total + 1.0) / fleet.len() as f64).ceil();
        prop_assert!(requests(&fleet[of(Policy::ConsistentHash)]) < bound);

        let uncached = |c: &Candidate| f64::from(9000 - c.overlap_tokens) + c.queued_tokens as f64;
        let product = |c: &Candidate| uncached(c) * (requests(c) + 1.0);
        prop_assert_eq!(product(&fleet[of(Policy::Lmetric)]), least(&fleet, product));

        let rate = 8192.0 / PRICES.cold(8192);
        let warm = |c: &Candidate| f64::from(c.overlap_tokens) >= 0.8 * 9000.0;
        let (sticky, others): (Vec<_>, Vec<_>) = fleet.iter().copied().partition(warm);
        let wait = |fleet: &[Candidate]| least(fleet, |c| c.queued_tokens as f64 / rate);
        let stay = !sticky.is_empty() && wait(&sticky) - wait(&others) <= 14.0;
        let among = if stay { &sticky } else { &fleet };
        prop_assert_eq!(uncached(&fleet[of(Policy::StickyUntilSaturated)]), least(among, uncached));

        let longest = fleet.iter().map(|c| c.overlap_tokens).max().unwrap();
        let aware = &fleet[of(Policy::CacheAware)];
        if f64::from(longest) > 0.3 * 9000.0 {
            let holders: Vec<_> = fleet.iter().copied().filter(|c| c.overlap_tokens == longest).collect();
            prop_assert_eq!(aware.overlap_tokens, longest);
            prop_assert_eq!(requests(aware), least(&holders, requests));
        } else {
            prop_assert_eq!(requests(aware), least(&fleet, requests));
        }
    }

    #[test]
    fn hashing_policies_go_by_the_key_and_the_name_alone(fleet in candidates(), keys in prop::array::uniform2(any::<u64>())) {
        let session = |key| Question { session: key, ..question(9000) };
        let at = |key: u64, fleet: &[Candidate]| fleet[choose(Policy::SessionSticky, &session(key), fleet).index].slot;
        let idle: Vec<_> = (0..fleet.len() as u32).map(candidate).collect();
        prop_assert_eq!(at(keys[0], &fleet), at(keys[0], &idle), "load does not matter");
        let reversed: Vec<_> = fleet.iter().rev().copied().collect();
        prop_assert_eq!(at(keys[1], &fleet), at(keys[1], &reversed), "nor does the order of the workers");
    }
}

#[test]
fn cache_aware_turns_to_load_while_the_fleet_is_out_of_balance() {
    let mut fleet: Vec<_> = (0..3).map(candidate).collect();
    fleet[0] = Candidate { overlap_tokens: 8000, requests: 64, ..fleet[0] };
    assert_eq!(choose(Policy::CacheAware, &question(9000), &fleet).index, 0);
    fleet[0].requests = 65;
    assert_ne!(choose(Policy::CacheAware, &question(9000), &fleet).index, 0);
}

#[test]
fn nobody_to_choose_from_is_no_choice() {
    for name in Policy::NAMES {
        let mut config = RouterConfig::default();
        config.set("policy", &warmroute_core::options::Value::Choice(name.to_owned())).unwrap();
        assert_eq!(pick(&question(9000), &[], &config, &PRICES), None, "{name}");
    }
}

#[test]
fn a_full_worker_is_a_last_resort() {
    let warm = Candidate { overlap_tokens: 8000, full: true, requests: 3, ..candidate(0) };
    let fleet = [warm, candidate(1)];
    assert_eq!(
        choose(Policy::PricedAffinity, &question(9000), &fleet),
        Pick { index: 1, reason: Reason::Cold }
    );
    let both = [warm, Candidate { full: true, ..candidate(1) }];
    assert_eq!(
        choose(Policy::PricedAffinity, &question(9000), &both),
        Pick { index: 0, reason: Reason::Warm }
    );
}

/// Held, then in a lower tier, then gone: each dearer than the one before it, whatever the price of the tier.
#[test]
fn a_lower_tier_is_cheaper_than_gone_and_dearer_than_held() {
    for share in [0.01, 0.1, 0.5, 0.99] {
        let prices = PRICES.at_lower_tier_price(share);
        for (overlap, lower) in [(0, 8000), (1000, 7000), (7984, 16), (0, 16)] {
            let at = |overlap_tokens, lower_tokens| {
                let worker = Candidate { overlap_tokens, lower_tokens, requests: 2, ..candidate(0) };
                warmroute_core::select::cost::of(&question(9000), &worker, &prices).total()
            };
            let (held, lower, gone) = (at(overlap + lower, 0), at(overlap, lower), at(overlap, 0));
            assert!(held < lower && lower < gone, "{held} {lower} {gone}");
        }
    }
}

#[test]
fn what_is_in_a_lower_tier_is_fetched_by_its_worker_unless_another_one_has_it_on_the_device() {
    let question = question(9000);
    let away = Candidate { lower_tokens: 8000, ..candidate(0) };
    let held = Candidate { overlap_tokens: 8000, ..candidate(1) };
    let fleet = |first, second| [first, second, candidate(2), candidate(3)];
    let pick = |fleet: &[Candidate]| choose(Policy::PricedAffinity, &question, fleet);
    assert_eq!(pick(&fleet(away, candidate(1))), Pick { index: 0, reason: Reason::Warm });
    assert_eq!(pick(&fleet(away, held)), Pick { index: 1, reason: Reason::Warm });
    let busy = Candidate { wait_seconds: 0.3, queued_tokens: 5000, requests: 1, ..held };
    assert_eq!(pick(&fleet(away, busy)), Pick { index: 0, reason: Reason::Warm });
}
