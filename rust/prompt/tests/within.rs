//! What may be made where streams wait: what was seen, with little that was not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "of the support, one tokenizer is used")]

mod support;

use serde_json::{Value, json};
use support::{Folder, TEMPLATES, package, with_bos};
use warmroute_prompt::{Body, Endpoint, Prompter, Rung};

const LIMIT: usize = 4 << 10;

fn text(seed: usize, bytes: usize) -> String {
    (0..).map(|word| format!("word{} ", (seed + 1) * 7919 * (word + 1) % 100_003)).take(bytes / 9).collect()
}

/// A system prompt and `turns` of a user and an assistant, each of `bytes`.
fn chat(turns: usize, bytes: usize) -> Value {
    let message = |turn: usize| {
        let role = ["user", "assistant"][turn % 2];
        json!({"role": role, "content": text(turn, bytes)})
    };
    let system = json!({"role": "system", "content": text(1000, 40_000)});
    json!({"messages": std::iter::once(system).chain((0..turns).map(message)).collect::<Vec<_>>()})
}

/// Whether the prompt is made within the limit; then it is what it is without one.
fn is_made(prompter: &Prompter, endpoint: Endpoint, body: &Value) -> bool {
    let raw = body.to_string();
    let body = Body::parse(endpoint, raw.as_bytes()).unwrap();
    match prompter.read_within(&body, LIMIT).unwrap() {
        None => false,
        Some(prompt) => {
            assert_eq!(prompt, prompter.read(&body).unwrap());
            true
        }
    }
}

fn make(prompter: &Prompter, endpoint: Endpoint, body: &Value) {
    let raw = body.to_string();
    let body = Body::parse(endpoint, raw.as_bytes()).unwrap();
    assert_eq!(prompter.read(&body).unwrap().rung(), Rung::Local);
}

#[test]
fn a_chat_is_made_where_it_was_seen_but_for_a_little() {
    let folder = Folder::new("within", &package(), TEMPLATES[0].1);
    let prompter = folder.load(64 << 20);
    let chats = Endpoint::ChatCompletions;
    assert!(!is_made(&prompter, chats, &chat(4, 1000)));
    let stats = prompter.cache_stats();
    // Nothing was done in vain, and what will be done is not counted twice.
    assert_eq!((stats.read_raw_bytes, stats.encoded_text_bytes, stats.full_by_request), (0, 0, 0));
    make(&prompter, chats, &chat(4, 1000));
    let encoded = prompter.cache_stats().encoded_text_bytes;
    assert!(is_made(&prompter, chats, &chat(4, 1000)));
    assert_eq!(prompter.cache_stats().encoded_text_bytes, encoded);
    assert!(is_made(&prompter, chats, &chat(6, 1000)));
    assert!(!is_made(&prompter, chats, &chat(20, 1000)));
}

#[test]
fn what_was_done_until_the_limit_is_kept() {
    let folder = Folder::new("within-kept", &package(), TEMPLATES[0].1);
    let prompter = folder.load(64 << 20);
    make(&prompter, Endpoint::ChatCompletions, &chat(0, 0));
    let body = chat(14, 1000);
    let tries = (0..20).take_while(|_| !is_made(&prompter, Endpoint::ChatCompletions, &body)).count();
    // Two messages or more a time: first they are read, then they are encoded.
    assert!((3..14).contains(&tries), "{tries}");
    assert!(prompter.cache_stats().read_raw_bytes < 70_000);
}

#[test]
fn a_chat_of_too_many_messages_is_not_even_looked_up() {
    let folder = Folder::new("within-many", &package(), TEMPLATES[0].1);
    let prompter = folder.load(64 << 20);
    let (some, many) = (chat(40, 100), chat(80, 100));
    make(&prompter, Endpoint::ChatCompletions, &some);
    make(&prompter, Endpoint::ChatCompletions, &many);
    assert!(is_made(&prompter, Endpoint::ChatCompletions, &some));
    assert!(!is_made(&prompter, Endpoint::ChatCompletions, &many));
}

#[test]
fn what_is_rendered_in_full_must_be_short() {
    let folder = Folder::new("within-full", &package(), TEMPLATES[0].1);
    let prompter = folder.load(64 << 20);
    let response = |bytes| json!({"input": text(1, bytes)});
    for bytes in [1000, 9000] {
        make(&prompter, Endpoint::Responses, &response(bytes));
        assert_eq!(is_made(&prompter, Endpoint::Responses, &response(bytes)), bytes == 1000);
    }
    let media = |bytes| {
        let image = json!({"type": "image_url", "image_url": {"url": "http://h/i.png"}});
        let parts = json!([{"type": "text", "text": text(2, bytes)}, image]);
        json!({"messages": [{"role": "user", "content": parts}]})
    };
    assert!(is_made(&prompter, Endpoint::ChatCompletions, &media(1000)));
    assert!(!is_made(&prompter, Endpoint::ChatCompletions, &media(9000)));
}

#[test]
fn a_completion_is_looked_up_and_encoded_up_to_the_limit() {
    for bytes in [0, 64 << 20] {
        let folder = Folder::new("within-text", &package(), TEMPLATES[0].1);
        let prompter = folder.load(bytes);
        let completion = |seed, bytes| json!({"prompt": text(seed, bytes)});
        assert!(is_made(&prompter, Endpoint::Completions, &completion(1, 1000)));
        assert!(!is_made(&prompter, Endpoint::Completions, &completion(2, 9000)));
        make(&prompter, Endpoint::Completions, &completion(2, 9000));
        // Without a cache nothing is seen.
        assert_eq!(is_made(&prompter, Endpoint::Completions, &completion(2, 9000)), bytes > 0);
    }
}

#[test]
fn what_needs_no_tokenizer_is_made_whatever_its_length() {
    let folder = Folder::new("within-ids", &package(), TEMPLATES[0].1);
    let prompter = folder.load(64 << 20);
    let ids: Vec<_> = (0..20_000).collect();
    assert!(is_made(&prompter, Endpoint::Completions, &json!({"prompt": ids})));
    assert!(is_made(&Prompter::without_tokenizer(), Endpoint::ChatCompletions, &chat(4, 9000)));
}

#[test]
fn the_slow_tokenizer_encodes_less() {
    let mut tokenizer = with_bos();
    // fastokens has no such normalizer.
    tokenizer["normalizer"] = json!({"type": "NFKC"});
    let folder = Folder::new("within-slow", &tokenizer, TEMPLATES[0].1);
    let prompter = folder.load(64 << 20);
    assert!(!prompter.exact().unwrap().is_fast());
    let body = |bytes| json!({"messages": [{"role": "user", "content": text(3, bytes)}]});
    assert!(!is_made(&prompter, Endpoint::ChatCompletions, &body(1000)));
    make(&prompter, Endpoint::ChatCompletions, &body(1000));
    assert!(is_made(&prompter, Endpoint::ChatCompletions, &body(1000)));
}
