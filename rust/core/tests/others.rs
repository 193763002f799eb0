//! The workers that a decision did not take, against a sort of all candidates.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use warmroute_core::block::{BlockHash, Namespace};
use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::router::{RouteRequest, Router};
use warmroute_core::select::Reason;
use warmroute_core::time::Time;

fn router(workers: usize, limit: Option<u32>) -> Router {
    let mut router = Router::new(RouterConfig::default()).unwrap();
    for i in 0..workers {
        let spec = WorkerSpec {
            name: format!("w{i}"),
            kv_blocks: Some(2_600),
            max_requests: limit.filter(|_| i == 0),
            ..Default::default()
        };
        router.add_worker(spec).unwrap();
    }
    router
}

fn blocks(router: &Router, agent: u32, length: u32) -> Vec<BlockHash> {
    let ids: Vec<u8> = (0..length).flat_map(|i| (agent * 10_000 + i).to_le_bytes()).collect();
    let mut blocks = Vec::new();
    router.hasher().hash_ids(&Namespace::default(), &ids, &mut blocks);
    blocks
}

proptest! {
    #[test]
    fn alternatives_are_the_cheapest_candidates_that_were_not_chosen(
        workers in 1_usize..8,
        limit in 0_usize..6,
        requests in prop::collection::vec((0_u32..3, 100_u32..4_000), 1..40),
    ) {
        let mut router = router(workers, Some(2));
        for (turn, (agent, length)) in requests.into_iter().enumerate() {
            let blocks = blocks(&router, agent, length);
            let request = RouteRequest { blocks: &blocks, prompt_tokens: length, ..Default::default() };
            let (now, random) = (Time::from_nanos(turn as u64 * 1_000_000), turn as u64);
            let explained = router.explain(&request, now, random);
            let Ok((decision, _, others)) = router.route_among(&request, now, random, limit) else {
                prop_assert!(explained.decision.is_err());
                continue;
            };
            let mut rest: Vec<_> = explained
                .candidates
                .iter()
                .filter(|each| each.refusal.is_none() && each.worker.id != decision.worker.id)
                .map(|each| (each.full, each.cost.total(), each.overlap_tokens))
                .collect();
            rest.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            rest.truncate(limit);
            let found: Vec<_> = others.alternatives.iter().map(|each| (each.cost.total(), each.overlap_tokens)).collect();
            prop_assert_eq!(found.len(), rest.len());
            for (found, (_, cost, _)) in found.iter().zip(&rest) {
                prop_assert!((found.0 - cost).abs() < 1e-12);
            }
            prop_assert!(others.alternatives.iter().all(|each| each.worker.id != decision.worker.id));
            prop_assert_eq!(others.left.is_some(), decision.reason == Reason::Spill);
            if let Some(left) = others.left {
                prop_assert!(left.overlap_tokens > 0 && left.worker.id != decision.worker.id);
                prop_assert!(left.cost.total() > decision.cost.total());
            }
        }
    }
}

#[test]
fn a_spill_names_the_warm_worker_that_was_left() {
    let mut router = router(2, None);
    router.set_ready("w1", false).unwrap();
    // Four prompts wait at w0, the only one that is up: the first of them is asked for again.
    let prompts: Vec<_> = (0..4).map(|agent| blocks(&router, agent, 8_000)).collect();
    let ask = |router: &mut Router, blocks: &[BlockHash], turn: u64| {
        let request = RouteRequest { blocks, prompt_tokens: 8_000, ..Default::default() };
        let (decision, _reservation, others) =
            router.route_among(&request, Time::from_nanos(turn), turn, 2).unwrap();
        (decision, others)
    };
    for (turn, blocks) in prompts.iter().enumerate() {
        assert_eq!(ask(&mut router, blocks, turn as u64).0.worker.spec.name, "w0");
    }
    router.set_ready("w1", true).unwrap();
    let (decision, others) = ask(&mut router, &prompts[0], 9);
    assert_eq!((decision.reason, decision.worker.spec.name.as_str()), (Reason::Spill, "w1"));
    let left = others.left.unwrap();
    assert_eq!((left.worker.spec.name.as_str(), left.overlap_tokens), ("w0", 7_984));
    assert!(left.cost.wait > 0.0);
}
