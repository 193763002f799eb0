//! Hand-worked cases of the scheduler.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;

pub(super) fn config(block_size: u32, blocks: u32) -> EngineConfig {
    EngineConfig {
        block_size,
        num_blocks: blocks + 1,
        max_model_len: (block_size * blocks).min(8192),
        kv_events: true,
        ..EngineConfig::default()
    }
}

fn engine(block_size: u32, blocks: u32) -> Engine {
    Engine::new(config(block_size, blocks)).unwrap()
}

/// Distinct tokens, so that prompts of different `from` share no prefix.
pub(super) fn prompt(from: u32, tokens: u32) -> Arc<[u32]> {
    (from..from + tokens).collect()
}

pub(super) fn submit(engine: &mut Engine, prompt: Arc<[u32]>, output_tokens: u32) -> RequestId {
    let space = Arc::default();
    engine.submit(Submission { prompt, output_tokens, finish: Finish::Length, space }, 0.0).unwrap()
}

fn step(engine: &mut Engine, now: &mut f64) -> Option<StepOutput> {
    *now += engine.begin_step(*now)?;
    Some(engine.end_step(*now))
}

/// Steps until nothing is left to do.
pub(super) fn run(engine: &mut Engine, now: &mut f64) -> Vec<StepOutput> {
    std::iter::from_fn(|| step(engine, now)).collect()
}

fn finished(outputs: &[StepOutput]) -> Vec<RequestId> {
    outputs
        .iter()
        .flat_map(|out| &out.tokens)
        .filter(|token| token.finished.is_some())
        .map(|t| t.id)
        .collect()
}

#[test]
fn a_long_prompt_is_computed_in_chunks() {
    let (mut engine, mut now) = (engine(16, 1000), 0.0);
    let id = submit(&mut engine, prompt(0, 5000), 3);
    let outputs = run(&mut engine, &mut now);
    let tokens: Vec<usize> = outputs.iter().map(|out| out.tokens.len()).collect();
    assert_eq!(tokens, [0, 0, 1, 1, 1], "two chunks of 2048, one of 904 with the first token, two decodes");
    assert_eq!(finished(&outputs), [id]);
    let counters = engine.counters();
    assert_eq!((counters.prompt_tokens, counters.generation_tokens), (5000, 3));
    assert_eq!((counters.prefix_queries, counters.prefix_hits), (5000, 0));
    assert_eq!((counters.steps, counters.recomputed_tokens), (5, 0));
    assert!((counters.busy_seconds - now).abs() < 1e-9);
    assert_eq!(engine.load(), Load { running: 0, waiting: 0, used_blocks: 0, usable_blocks: 1000 });
}

#[test]
fn a_cold_prefill_takes_as_long_as_was_measured() {
    let mut now = 0.0;
    let config = EngineConfig { step_time: StepTime::H100_8B, ..EngineConfig::default() };
    let mut engine = Engine::new(config).unwrap();
    submit(&mut engine, prompt(0, 30_000), 1);
    run(&mut engine, &mut now);
    assert!((now / 0.96 - 1.0).abs() < 0.064, "{now} s");
}

#[test]
fn hits_are_whole_blocks_and_leave_a_token_to_compute() {
    for (tokens, hit) in [(1043, 1024), (640, 608), (32, 0), (33, 32), (5, 0)] {
        let (mut engine, mut now) = (engine(32, 256), 0.0);
        submit(&mut engine, prompt(0, tokens), 1);
        run(&mut engine, &mut now);
        assert_eq!(engine.overlap(&prompt(0, tokens), &Space::default()), hit);
        submit(&mut engine, prompt(0, tokens), 1);
        let outputs = run(&mut engine, &mut now);
        assert_eq!(outputs[0].tokens[0].cached_tokens, hit, "{tokens} tokens");
        assert_eq!(engine.counters().prefix_hits, u64::from(hit));
    }
}

#[test]
fn a_second_prompt_shares_a_prefill_in_progress() {
    let (mut engine, mut now) = (engine(16, 1000), 0.0);
    submit(&mut engine, prompt(0, 5000), 1);
    step(&mut engine, &mut now);
    submit(&mut engine, prompt(0, 5000), 1);
    // The first takes the whole budget of the second step, and leaves room in the third.
    let outputs = run(&mut engine, &mut now);
    assert_eq!(outputs.len(), 2);
    let cached: Vec<_> = outputs[1].tokens.iter().map(|token| token.cached_tokens).collect();
    assert_eq!(cached, [0, 4992]);
    assert_eq!(engine.counters().computed_tokens, 5000 + 8);
    assert_eq!(engine.counters().recomputed_tokens, 0);
}

#[test]
fn outputs_fill_blocks_that_the_next_turn_hits() {
    let (mut engine, mut now) = (engine(16, 100), 0.0);
    submit(&mut engine, prompt(0, 20), 30);
    let answer: Vec<u32> = run(&mut engine, &mut now).iter().map(|out| out.tokens[0].token).collect();
    let next_turn: Arc<[u32]> = prompt(0, 20).iter().chain(&answer).copied().chain(900..910).collect();
    // 49 of the 50 tokens were computed: the last token was generated and never fed back.
    assert_eq!(engine.overlap(&next_turn, &Space::default()), 48);
}

#[test]
fn equal_prompts_have_equal_outputs_and_other_salts_share_nothing() {
    let (mut engine, mut now) = (engine(16, 100), 0.0);
    let mut answer = |salt: Option<&str>| {
        let space = Arc::new(Space { salt: salt.map(str::to_owned), lora: None });
        let submission = Submission { prompt: prompt(0, 40), output_tokens: 8, finish: Finish::Stop, space };
        engine.submit(submission, now).unwrap();
        let tokens: Vec<_> = run(&mut engine, &mut now).into_iter().flat_map(|out| out.tokens).collect();
        (tokens[0].cached_tokens, tokens.iter().map(|t| t.token).collect::<Vec<_>>())
    };
    let (first, second, salted) = (answer(None), answer(None), answer(Some("tenant-a")));
    assert_eq!((first.0, second.0, salted.0), (0, 32, 0));
    assert_eq!(first.1, second.1);
}

#[test]
fn the_last_to_run_is_preempted_and_resumes_from_the_head() {
    // Two prompts of 8 tokens fill 4 of 5 blocks of 4; each then grows into a block of its own.
    let (mut engine, mut now) = (engine(4, 5), 0.0);
    let first = submit(&mut engine, prompt(0, 8), 6);
    let second = submit(&mut engine, prompt(100, 8), 6);
    let third = submit(&mut engine, prompt(200, 8), 1);
    assert_eq!(step(&mut engine, &mut now).unwrap().tokens.len(), 2);
    let out = step(&mut engine, &mut now).unwrap();
    assert_eq!(out.preempted, [second]);
    assert_eq!(out.tokens.iter().map(|token| token.id).collect::<Vec<_>>(), [first]);
    assert_eq!((engine.load().running, engine.load().waiting), (1, 2));
    let outputs = run(&mut engine, &mut now);
    assert_eq!(finished(&outputs), [first, third, second]);
    let resumed = outputs.iter().find(|out| out.tokens[0].id != first).unwrap();
    let order: Vec<_> = resumed.tokens.iter().map(|token| (token.id, token.index)).collect();
    assert_eq!(order, [(second, 1), (third, 0)], "it resumes before those that wait");
    assert_eq!(engine.counters().preemptions, 1);
    // The preempted one finds its first block again and computes at least the second; it is counted once.
    assert_eq!(engine.counters().prefix_queries, 24);
    assert!(engine.counters().recomputed_tokens > 0);
    let indices: Vec<_> =
        outputs.iter().flat_map(|out| &out.tokens).filter(|t| t.id == second).map(|t| t.index).collect();
    assert_eq!(indices, [1, 2, 3, 4, 5], "no token is given out twice");
}

#[test]
fn a_head_without_room_blocks_those_behind_it() {
    let (mut engine, mut now) = (engine(4, 10), 0.0);
    let running = submit(&mut engine, prompt(0, 16), 4);
    step(&mut engine, &mut now);
    let head = submit(&mut engine, prompt(100, 30), 1);
    let small = submit(&mut engine, prompt(200, 3), 1);
    step(&mut engine, &mut now);
    assert_eq!((engine.load().running, engine.load().waiting), (1, 2));
    assert_eq!(finished(&run(&mut engine, &mut now)), [running, head, small]);
}

#[test]
fn without_the_reservation_a_first_chunk_is_enough() {
    // Ten blocks hold the six of the first and the first chunk of the second, not six more.
    let config = EngineConfig { max_num_batched_tokens: 10, max_num_seqs: 4, ..config(4, 10) };
    for (reserve_full_prompt, admitted) in [(true, 24), (false, 48)] {
        let mut engine = Engine::new(EngineConfig { reserve_full_prompt, ..config.clone() }).unwrap();
        submit(&mut engine, prompt(0, 24), 4);
        submit(&mut engine, prompt(100, 24), 1);
        let mut now = 0.0;
        (0..3).for_each(|_| drop(step(&mut engine, &mut now)));
        assert_eq!(engine.counters().prefix_queries, admitted);
    }
}

#[test]
fn no_more_run_than_there_are_seats() {
    let config = EngineConfig { max_num_seqs: 2, ..config(16, 100) };
    let mut engine = Engine::new(config).unwrap();
    for i in 0..3 {
        submit(&mut engine, prompt(i * 100, 10), 2);
    }
    let mut now = 0.0;
    step(&mut engine, &mut now);
    assert_eq!((engine.load().running, engine.load().waiting), (2, 1));
}

#[test]
fn an_abort_frees_at_once_in_every_phase() {
    let (mut engine, mut now) = (engine(16, 500), 0.0);
    let prefilling = submit(&mut engine, prompt(0, 5000), 1);
    let waiting = submit(&mut engine, prompt(6000, 100), 1);
    now += engine.begin_step(now).unwrap();
    assert_eq!(engine.load().used_blocks, 128);
    assert!(engine.abort(prefilling), "in the middle of a step");
    assert_eq!(engine.load().used_blocks, 0);
    assert!(engine.abort(waiting));
    assert!(!engine.abort(waiting), "it is gone");
    assert_eq!(engine.end_step(now).tokens, []);
    assert_eq!(engine.begin_step(now), None);
    // What was computed stays cached.
    assert_eq!(engine.overlap(&prompt(0, 5000), &Space::default()), 2048);
    let decoding = submit(&mut engine, prompt(0, 100), 50);
    step(&mut engine, &mut now);
    assert!(engine.abort(decoding));
    assert_eq!((engine.load().used_blocks, engine.counters().aborted), (0, 3));
}

#[test]
fn a_reset_waits_for_idle_or_sends_everyone_back() {
    let (mut engine, mut now) = (engine(16, 500), 0.0);
    let id = submit(&mut engine, prompt(0, 5000), 1);
    now += engine.begin_step(now).unwrap();
    assert!(!engine.reset_prefix_cache(false));
    assert!(engine.reset_prefix_cache(true));
    assert_eq!(engine.overlap(&prompt(0, 5000), &Space::default()), 0);
    let outputs = [vec![engine.end_step(now)], run(&mut engine, &mut now)].concat();
    assert_eq!(finished(&outputs), [id]);
    assert_eq!(outputs[0].events.last(), Some(&KvEvent::Cleared));
}

#[test]
fn events_tell_what_is_stored_and_evicted() {
    let (mut engine, mut now) = (engine(4, 4), 0.0);
    submit(&mut engine, prompt(0, 11), 3);
    let outputs = run(&mut engine, &mut now);
    let [KvEvent::Stored { parent: None, hashes: first, tokens, .. }] = &outputs[0].events[..] else {
        panic!("{:?}", outputs[0].events)
    };
    assert_eq!((first.len(), &tokens[..]), (2, &prompt(0, 8)[..]));
    let [KvEvent::Stored { parent, hashes: third, tokens, .. }] = &outputs[1].events[..] else {
        panic!("{:?}", outputs[1].events)
    };
    assert_eq!((*parent, &tokens[..3]), (Some(first[1]), &[8, 9, 10][..]), "decode fills a block");
    assert_eq!(outputs[2].events, [], "a hit or half a block is no event");
    // Blocks without a hash go first, then the tail of the oldest sequence, one event each.
    submit(&mut engine, prompt(100, 12), 1);
    let out = step(&mut engine, &mut now).unwrap();
    assert_eq!(
        out.events[..2],
        [KvEvent::Removed { hash: third[0] }, KvEvent::Removed { hash: first[1] }],
        "removals precede what needed the room"
    );
    assert!(matches!(out.events[2], KvEvent::Stored { parent: None, .. }));
    assert!(engine.reset_prefix_cache(false));
    assert_eq!(engine.begin_step(now), None, "an idle engine keeps the event");
    submit(&mut engine, prompt(100, 3), 1);
    assert_eq!(step(&mut engine, &mut now).unwrap().events, [KvEvent::Cleared]);
}

#[test]
fn a_hash_stored_twice_is_removed_twice() {
    let (mut engine, mut now) = (engine(4, 6), 0.0);
    let events =
        |outputs: Vec<StepOutput>| outputs.into_iter().flat_map(|out| out.events).collect::<Vec<_>>();
    // Eight tokens are two blocks, and the second is computed each time.
    let mut all = Vec::new();
    for _ in 0..3 {
        submit(&mut engine, prompt(0, 8), 1);
        all.extend(events(run(&mut engine, &mut now)));
    }
    submit(&mut engine, prompt(100, 23), 1);
    all.extend(events(run(&mut engine, &mut now)));
    let mut copies: HashMap<u64, i32> = HashMap::new();
    let mut most = 0;
    for event in &all {
        match event {
            KvEvent::Stored { hashes, .. } => hashes.iter().for_each(|&h| *copies.entry(h).or_default() += 1),
            KvEvent::Removed { hash } => *copies.entry(*hash).or_default() -= 1,
            KvEvent::Cleared => copies.clear(),
        }
        most = most.max(copies.values().copied().max().unwrap_or(0));
    }
    assert_eq!(most, 3);
    assert_eq!(copies.values().filter(|&&left| left > 0).count(), 5);
}

#[test]
fn recomputation_is_what_an_endless_cache_would_have_spared() {
    let (mut engine, mut now) = (engine(16, 100), 0.0);
    for from in [0, 10_000, 0, 10_000] {
        submit(&mut engine, prompt(from, 1600 - 10), 1);
        run(&mut engine, &mut now);
    }
    let counters = engine.counters();
    // 99 full blocks are evicted and computed again, twice; the partial one is never called recomputed.
    assert_eq!(counters.recomputed_tokens, 2 * 99 * 16);
    let share = counters.recompute_seconds / counters.busy_seconds;
    assert!((0.45..0.5).contains(&share), "{share}");
    assert!((counters.prefill_seconds - counters.busy_seconds).abs() < 1e-9);
}

#[test]
fn histograms_hold_each_request_once() {
    let (mut engine, mut now) = (engine(16, 100), 0.0);
    for i in 0..5 {
        submit(&mut engine, prompt(i * 100, 50), 4);
    }
    run(&mut engine, &mut now);
    let counters = engine.counters();
    assert_eq!(counters.ttft.count(), 5);
    assert_eq!(counters.inter_token.count(), 15);
    for histogram in
        [&counters.e2e, &counters.queue, &counters.prefill, &counters.decode, &counters.inference]
    {
        assert_eq!((histogram.count(), histogram.cumulative().last()), (5, Some(5)));
    }
    assert!((counters.e2e.sum() - 5.0 * now).abs() < 1e-9);
}

#[test]
fn what_cannot_be_served_is_refused() {
    let mut engine = engine(16, 10);
    let mut try_submit = |tokens, output_tokens| {
        let space = Arc::default();
        let prompt = prompt(0, tokens);
        engine.submit(Submission { prompt, output_tokens, finish: Finish::Stop, space }, 0.0)
    };
    assert_eq!(try_submit(0, 1), Err(SubmitError::EmptyPrompt));
    assert_eq!(try_submit(1, 0), Err(SubmitError::NoOutput));
    assert_eq!(try_submit(160, 1), Err(SubmitError::PromptTooLong { tokens: 160, max_model_len: 160 }));
    assert!(try_submit(159, 1000).is_ok(), "the output ends with the window");
    let mut now = 0.0;
    let outputs = run(&mut engine, &mut now);
    assert_eq!(outputs[0].tokens[0].finished, Some(Finish::Length));
}

#[test]
fn a_configuration_error_names_the_range() {
    let check = |config: EngineConfig| config.check().unwrap_err().to_string();
    assert_eq!(
        check(EngineConfig { max_num_batched_tokens: 8, ..config(16, 10) }),
        "max_num_batched_tokens is 8, and must be 256 to 1073741824"
    );
    assert_eq!(
        check(EngineConfig { max_model_len: 161, ..config(16, 10) }),
        "max_model_len is 161, and must be 2 to 160"
    );
    assert!(Engine::new(EngineConfig { block_size: 0, ..config(16, 10) }).is_err());
    assert!(Engine::new(EngineConfig { output_ids: Arc::from([]), ..config(16, 10) }).is_err());
    let step_time = StepTime { t0: 0.0, ..StepTime::A100_8B };
    assert!(Engine::new(EngineConfig { step_time, ..config(16, 10) }).is_err());
}
