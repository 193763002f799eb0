//! Random operations against what must always hold.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::tests::{config, prompt, run, submit};
use super::*;

#[derive(Clone, Debug)]
enum Op {
    Submit { group: u32, shared: u32, own: u32, outputs: u32, salted: bool },
    Step,
    BeginOnly,
    Abort(usize),
    Reset(bool),
}

fn op() -> impl Strategy<Value = Op> {
    let submit = (0_u32..3, 0_u32..20, 1_u32..12, 1_u32..10, any::<bool>())
        .prop_map(|(group, shared, own, outputs, salted)| Op::Submit { group, shared, own, outputs, salted });
    prop_oneof![
        5 => submit,
        8 => Just(Op::Step),
        1 => Just(Op::BeginOnly),
        2 => any::<usize>().prop_map(Op::Abort),
        1 => any::<bool>().prop_map(Op::Reset),
    ]
}

/// What a subscriber to the events believes to be cached: copies of each hash.
#[derive(Default)]
struct Subscriber(HashMap<u64, u32>);

impl Subscriber {
    fn apply(&mut self, events: &[KvEvent]) {
        for event in events {
            match event {
                KvEvent::Stored { hashes, tokens, .. } => {
                    assert_eq!(tokens.len(), hashes.len() * 4);
                    hashes.iter().for_each(|&hash| *self.0.entry(hash).or_default() += 1);
                }
                KvEvent::Removed { hash } => {
                    let copies = self.0.get_mut(hash).expect("only what was stored is removed");
                    *copies -= 1;
                    if *copies == 0 {
                        self.0.remove(hash);
                    }
                }
                KvEvent::Cleared => self.0.clear(),
            }
        }
    }
}

fn assert_consistent(engine: &Engine) {
    let sequences: Vec<_> = engine.running.iter().map(|request| &request.blocks[..]).collect();
    engine.pool.assert_consistent(&sequences);
    for request in &engine.running {
        assert_eq!(request.blocks.len(), request.computed.div_ceil(4) as usize);
        assert_eq!(request.stored, request.computed as usize / 4);
        assert!(request.computed <= request.tokens());
    }
    assert!(engine.waiting.iter().all(|request| request.blocks.is_empty() && request.computed == 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn nothing_is_lost_and_events_mirror_the_cache(
        ops in prop::collection::vec(op(), 1..100),
        blocks in 8_u32..24,
    ) {
        let config = EngineConfig { max_num_batched_tokens: 16, max_num_seqs: 4, ..config(4, blocks) };
        let (mut engine, mut now) = (Engine::new(config).unwrap(), 0.0);
        let mut open: HashMap<RequestId, u32> = HashMap::new();
        let mut subscriber = Subscriber::default();
        let take = |open: &mut HashMap<RequestId, u32>, subscriber: &mut Subscriber, out: &StepOutput| {
            subscriber.apply(&out.events);
            for token in &out.tokens {
                let next = open.get_mut(&token.id).expect("only open requests get tokens");
                assert_eq!(token.index, *next);
                *next += 1;
                if token.finished.is_some() {
                    open.remove(&token.id);
                }
            }
        };
        for op in ops {
            match op {
                Op::Submit { group, shared, own, outputs, salted } => {
                    let tokens = (0..shared).map(|i| group * 1000 + i).chain((0..own).map(|i| 5000 + i));
                    let space = Arc::new(Space { salt: salted.then(|| "s".to_owned()), lora: None });
                    let (prompt, finish) = (tokens.collect(), Finish::Stop);
                    let submission = Submission { prompt, output_tokens: outputs, finish, space };
                    if let Ok(id) = engine.submit(submission, now) {
                        open.insert(id, 0);
                    }
                }
                Op::BeginOnly => now += engine.begin_step(now).unwrap_or(0.0),
                Op::Step => {
                    now += engine.begin_step(now).unwrap_or(0.0);
                    take(&mut open, &mut subscriber, &engine.end_step(now));
                }
                Op::Abort(at) if !open.is_empty() => {
                    let mut ids: Vec<_> = open.keys().copied().collect();
                    ids.sort();
                    let id = ids[at % ids.len()];
                    prop_assert!(engine.abort(id));
                    open.remove(&id);
                }
                Op::Abort(_) => {}
                Op::Reset(force) => {
                    let idle = engine.load().used_blocks == 0;
                    prop_assert_eq!(engine.reset_prefix_cache(force), idle || force);
                }
            }
            assert_consistent(&engine);
            prop_assert_eq!(engine.load().running + engine.load().waiting, open.len());
        }
        take(&mut open, &mut subscriber, &engine.end_step(now));
        for out in run(&mut engine, &mut now) {
            take(&mut open, &mut subscriber, &out);
            assert_consistent(&engine);
        }
        prop_assert!(open.is_empty(), "every request ends");
        prop_assert_eq!(engine.load().used_blocks, 0);
        // A reset that no step followed is still to be told.
        if engine.reset_prefix_cache(false) {
            submit(&mut engine, prompt(7000, 1), 1);
            run(&mut engine, &mut now).iter().for_each(|out| subscriber.apply(&out.events));
        }
        prop_assert!(subscriber.0.is_empty());
    }
}
