//! CPU from a body's bytes to its block hashes, seen and unseen; memory of a conversation that grows.
//!
//! `warmroute-bench-tokens FOLDER [ROUNDS]` prints one JSON object a line.

mod chats;

use std::path::Path;

use chats::{Texts, body};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use warmroute_core::block::{BlockHasher, Namespace};
use warmroute_prompt::{Body, CacheStats, Endpoint, LoadOptions, Prompter, Rung};

/// Text of a chat, in bytes.
const TEXT: usize = 120_000;
/// Text of a new turn.
const TURN: usize = 2_000;
/// What of it is the reply that the new message of the user answers.
const REPLY: usize = 500;
const BLOCK: u32 = 16;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder with a tokenizer");
    let rounds: usize = arguments.next().map_or(25, |rounds| rounds.parse().expect("a number"));
    let folder = Path::new(&folder);
    let prompter = Prompter::load(folder, &LoadOptions::default()).expect("a tokenizer");
    let reference = tokenizers::Tokenizer::from_file(folder.join("tokenizer.json")).expect("a tokenizer");
    let mut texts = Texts::new(7);
    // What is loaded and allocated with the first requests is not counted.
    for _ in 0..4 {
        cost(&prompter, &body(&texts.messages(20, TEXT), None));
    }
    for count in [2, 60] {
        for tools in [false, true] {
            let name = format!("{count} messages{}", if tools { ", 20 tools" } else { "" });
            let tools = tools.then(|| texts.tools(20));
            let chats: Vec<Chat> =
                (0..rounds).map(|_| Chat::new(&mut texts, count, tools.as_ref())).collect();
            println!("{}", measured(&prompter, &reference, &name, &chats));
        }
    }
    growth(folder, &mut texts);
}

/// The bodies of one conversation.
struct Chat {
    first: Vec<u8>,
    /// The same with the reply to it and another message of the user.
    turn: Vec<u8>,
    /// A chat of nothing but a message like that one.
    alone: Vec<u8>,
}

impl Chat {
    fn new(texts: &mut Texts, count: usize, tools: Option<&Value>) -> Chat {
        let mut messages = texts.messages(count, TEXT);
        let first = body(&messages, tools);
        messages.push(json!({"role": "assistant", "content": texts.text(REPLY)}));
        messages.push(json!({"role": "user", "content": texts.text(TURN - REPLY)}));
        let turn = body(&messages, tools);
        let alone = body(&[json!({"role": "user", "content": texts.text(TURN)})], None);
        Chat { first, turn, alone }
    }
}

/// What each step costs, chat after chat as a router has them: between two requests of one are those of all others.
fn measured(prompter: &Prompter, reference: &tokenizers::Tokenizer, name: &str, chats: &[Chat]) -> Value {
    let all =
        |pick: fn(&Chat) -> &[u8]| median(chats.iter().map(|chat| cost(prompter, pick(chat))).collect());
    let unseen = all(|chat| &chat.first);
    let seen = all(|chat| &chat.first);
    let before = prompter.cache_stats();
    let turn = all(|chat| &chat.turn);
    let after = prompter.cache_stats();
    let encoded = after.encoded_text_bytes - before.encoded_text_bytes;
    assert!(
        encoded < (chats.len() * 3 * TURN) as u64,
        "{encoded} bytes were encoded for a turn of each chat"
    );
    let alone = all(|chat| &chat.alone);
    let in_full = after.full_by_template + after.full_by_request;
    let hugging_face = chats.iter().take(5).map(|chat| {
        let parsed = Body::parse(Endpoint::ChatCompletions, &chat.first).expect("a body");
        let text = prompter.exact().expect("a tokenizer").text(&parsed).expect("a text");
        cpu(|| {
            reference.encode_fast(text.as_str(), false).expect("ids");
        })
    });
    json!({
        "chat": name, "body_bytes": chats[0].first.len(), "unseen_us": unseen, "seen_us": seen, "new_turn_us": turn,
        "own_us": alone, "hugging_face_us": median(hugging_face.collect()), "in_full": in_full,
    })
}

/// Bytes that a conversation of 60 turns adds to the cache, beside its text.
fn growth(folder: &Path, texts: &mut Texts) {
    let prompter = Prompter::load(folder, &LoadOptions::default()).expect("a tokenizer");
    let mut messages = texts.messages(2, 4_000);
    let (mut half, mut sent) = (CacheStats::default(), 0);
    for turn in 1..=60 {
        let raw = body(&messages, None);
        cost(&prompter, &raw);
        sent = raw.len();
        if turn == 30 {
            half = prompter.cache_stats();
        }
        messages.push(json!({"role": "assistant", "content": texts.text(REPLY)}));
        messages.push(json!({"role": "user", "content": texts.text(TURN - REPLY)}));
    }
    let all = prompter.cache_stats();
    println!(
        "{}",
        json!({"turns": 60, "text_bytes": sent, "held_bytes": all.bytes, "held_bytes_at_half": half.bytes})
    );
}

/// CPU of one request, in microseconds: from bytes to ids and block hashes.
fn cost(prompter: &Prompter, raw: &[u8]) -> f64 {
    let hasher = BlockHasher::new(BLOCK, 0);
    let mut hashes = Vec::with_capacity(4096);
    cpu(|| {
        let body = prompter.parse(Endpoint::ChatCompletions, raw).expect("a body");
        let prompt = prompter.read(&body).expect("a prompt");
        assert_eq!(prompt.rung(), Rung::Local);
        prompt.hash_into(&hasher, &Namespace { model: "m", ..Namespace::default() }, &mut hashes);
        assert!(hashes.len() == (prompt.tokens() / BLOCK) as usize);
    })
}

/// CPU of the whole process, in microseconds: an encoder may use threads of its own.
fn cpu(work: impl FnOnce()) -> f64 {
    let now = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
    };
    let start = now();
    work();
    now() - start
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2] * 10.0).round() / 10.0
}
