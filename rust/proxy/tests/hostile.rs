//! Odd and hostile bodies over sockets, with a tokenizer: forwarded as they are, or refused in OpenAI's form.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking, and says its seed")]
#![allow(unreachable_pub, dead_code, reason = "the included files are a library of their own, too")]

#[path = "../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../fuzz/src/seeds.rs"]
mod seeds;
mod support;

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use support::{Echo, Stage, Worker, post};
use warmroute_prompt::{LoadOptions, Prompter};
use warmroute_proxy::ProxyConfig;

const PATHS: [&str; 4] = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"];
const BODIES: usize = 600;

fn hostile() -> Vec<Vec<u8>> {
    let chat = |content: &str| format!(r#"{{"messages": [{{"role": "user", "content": {content}}}]}}"#);
    let nested = "[".repeat(50_000) + &"]".repeat(50_000);
    let keys: String = (0..50_000).map(|key| format!("\"k{key}\":{key},")).collect();
    let mut bodies: Vec<Vec<u8>> = [
        chat(&nested),
        chat(&format!("\"{}\"", " ".repeat(1_000_000))),
        chat(&format!("\"{}\"", "\\ud800".repeat(100_000))),
        chat(&format!("\"{}\"", "\\u0000\u{0}".repeat(100_000))),
        format!(r#"{{{keys} "messages": [{}{{"role": "user", "content": "x"}}]}}"#, "{},".repeat(100_000)),
        format!(r#"{{"messages": [], "messages": 7, "prompt": [{}1e999], "max_tokens": -1e999}}"#, "1,".repeat(99_999)),
        format!(r#"{{"messages": [{{"role": "user", "content": "x"}}], "tools": [{{"type": "function", "function": {{"name": "f", "parameters": {{{keys} "a": {nested}}}}}}}]}}"#),
    ]
    .map(String::into_bytes)
    .into();
    bodies.push(
        [br#"{"messages": [{"role": "user", "content": ""#.as_slice(), &[0xff, 0xfe, 0xc0], b"\"}]}"]
            .concat(),
    );
    bodies
}

#[test]
fn hostile_bodies_are_forwarded_or_refused() {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/warmroute/data/tokenizer");
    let prompter = Prompter::load(&folder, &LoadOptions::default()).unwrap();
    let worker = Worker::ok();
    let config = ProxyConfig { threads: 1, ..ProxyConfig::default() };
    let stage = Stage::start(&[worker.url()], config, prompter, Arc::new(Echo));
    let mut rng = Rng::with_seed(seed);
    let changed = (0..BODIES).map(|number| {
        let body = seeds::BODIES[number % seeds::BODIES.len()].as_bytes();
        mutate::mutate(&mut rng, body, 1 << 16)
    });
    let bodies: Vec<_> = hostile().into_iter().chain(changed).collect();
    for (number, body) in bodies.iter().enumerate() {
        worker.forget();
        let reply = stage.ask(post(PATHS[number % PATHS.len()], body));
        match reply.status() {
            200 => assert_eq!(worker.seen().last().map(|seen| &seen.body[..]), Some(&body[..])),
            400 | 404 | 413 => {
                let _openai_shaped = reply.error_code();
                assert!(worker.seen().is_empty());
            }
            status => panic!("{status} for {}", String::from_utf8_lossy(&body[..body.len().min(2_000)])),
        }
    }
    stage.settled();
}
