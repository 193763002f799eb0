//! Without a tokenizer: the request's text stands for the prompt.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use warmroute_core::block::{BlockHash, BlockHasher, Namespace, Units};
use warmroute_prompt::{Body, Data, Endpoint, Prompter, Rung};

fn spans(endpoint: Endpoint, body: &str) -> (Vec<String>, Rung, u32) {
    let body = Body::parse(endpoint, body.as_bytes()).unwrap();
    let prompt = Prompter::without_tokenizer().read(&body).unwrap();
    let Data::Text(spans) = prompt.data() else { panic!("{prompt:?}") };
    let spans = spans.iter().map(|span| String::from_utf8(span.to_vec()).unwrap()).collect();
    (spans, prompt.rung(), prompt.tokens())
}

#[test]
fn spans_stand_in_the_template_s_order() {
    let chat = r#"{"messages": [{"role": "user"}], "tools": [{"type": "function"}]}"#;
    let (texts, rung, tokens) = spans(Endpoint::ChatCompletions, chat);
    assert_eq!(texts, [r#"{"type": "function"}"#, r#"{"role": "user"}"#]);
    assert_eq!((rung, tokens), (Rung::Text, 9));
    let messages = r#"{"messages": [1], "system": "s", "tools": [2]}"#;
    assert_eq!(spans(Endpoint::Messages, messages).0, ["2", "s", "1"]);
    let responses = r#"{"input": "hi", "instructions": "do", "tools": [3]}"#;
    assert_eq!(spans(Endpoint::Responses, responses).0, ["3", "do", "hi"]);
    assert_eq!(spans(Endpoint::Completions, r#"{"prompt": "a\nb"}"#).0, ["a\\nb"]);
    assert_eq!(spans(Endpoint::Completions, r#"{"prompt": ["one", "two"]}"#).0, ["one"]);
    assert_eq!(spans(Endpoint::Completions, r#"{"prompt_embeds": "AAAA"}"#).1, Rung::LoadOnly);
}

fn hashes(body: &str) -> (Vec<BlockHash>, Units) {
    let body = Body::parse(Endpoint::ChatCompletions, body.as_bytes()).unwrap();
    let prompt = Prompter::without_tokenizer().read(&body).unwrap();
    let mut out = Vec::new();
    prompt.hash_into(&BlockHasher::new(4, 0), &Namespace::default(), &mut out);
    (out, prompt.units())
}

#[test]
fn a_growing_conversation_is_a_growing_prefix() {
    let mut turns = vec![format!(r#"{{"role": "system", "content": "{}"}}"#, "rules ".repeat(40))];
    let mut last = hashes(&format!(r#"{{"messages": [{}]}}"#, turns.join(", "))).0;
    for turn in 0..5 {
        turns.push(format!(r#"{{"role": "user", "content": "question {turn}"}}"#));
        let (next, units) = hashes(&format!(r#"{{"model": "m", "messages": [{}]}}"#, turns.join(", ")));
        assert_eq!((next[..last.len()].to_vec(), units), (last.clone(), Units::Bytes));
        assert!(next.len() > last.len());
        last = next;
    }
}

#[test]
fn ids_of_the_client_are_taken_as_they_are() {
    let body = Body::parse(Endpoint::Completions, b"{\"prompt\": [5, 6, 7, 8, 9]}").unwrap();
    let prompt = Prompter::without_tokenizer().read(&body).unwrap();
    assert_eq!((prompt.rung(), prompt.units(), prompt.tokens()), (Rung::ClientIds, Units::Tokens, 5));
    let ids: Vec<u8> = [5_u32, 6, 7, 8].into_iter().flat_map(u32::to_le_bytes).collect();
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    let hasher = BlockHasher::new(4, 0);
    prompt.hash_into(&hasher, &Namespace { units: Units::Bytes, ..Namespace::default() }, &mut found);
    hasher.hash_ids(&Namespace::default(), &ids, &mut expected);
    assert_eq!(found, expected);
}
