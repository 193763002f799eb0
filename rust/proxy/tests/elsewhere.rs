//! Which prompts are made where streams wait, and which on a thread of their own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use support::{Echo, Stage, Worker, post};
use warmroute_prompt::Prompter;
use warmroute_proxy::ProxyConfig;

/// A chat with a system prompt of 100 KB, and so many turns of 2 KB.
fn chat(turns: usize) -> String {
    let text = |name: &str, words: usize| -> String { (0..words).map(|at| format!("{name}{at} ")).collect() };
    let system = format!(r#"{{"role": "system", "content": "{}"}}"#, text("word", 10_000));
    let turn = |turn: usize| {
        let said = text(&format!("turn{turn}word"), 150);
        format!(r#", {{"role": "user", "content": "{said}"}}, {{"role": "assistant", "content": "yes"}}"#)
    };
    let turns: String = (0..turns).map(turn).collect();
    format!(r#"{{"model": "m", "messages": [{system}{turns}]}}"#)
}

#[test]
fn a_seen_prompt_is_not_handed_to_another_thread() {
    let worker = Worker::ok();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/warmroute/data/tokenizer");
    let prompter = Prompter::load(folder.as_ref(), &Default::default()).unwrap();
    let config = ProxyConfig { threads: 1, ..ProxyConfig::default() };
    let stage = Stage::start(&[worker.url()], config, prompter, Arc::new(Echo));
    let elsewhere = |turns| {
        let before = stage.stats().encoded_elsewhere;
        let reply = stage.ask(post("/v1/chat/completions", chat(turns)));
        assert_eq!(reply.header("x-warmroute-rung"), Some("local"));
        stage.stats().encoded_elsewhere - before
    };
    assert_eq!(elsewhere(1), 1, "unseen");
    assert_eq!(elsewhere(1), 0, "seen");
    assert_eq!(elsewhere(2), 0, "seen but for a turn");
    assert_eq!(elsewhere(20), 1, "seen but for many turns");
    assert_eq!(elsewhere(20), 0, "seen");
    stage.settled();
}
