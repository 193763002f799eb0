//! Exact tokens or a refusal, and never anything else.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Instant;

use proptest::prelude::*;
use serde_json::{Value, json};
use warmroute_prompt::{Body, Data, Endpoint, LoadOptions, Prompter, Rung};

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/warmroute/data/tokenizer")
}

static PROMPTER: LazyLock<Prompter> =
    LazyLock::new(|| Prompter::load(&package(), &LoadOptions::default()).unwrap());
static REFERENCE: LazyLock<tokenizers::Tokenizer> =
    LazyLock::new(|| tokenizers::Tokenizer::from_file(package().join("tokenizer.json")).unwrap());

/// The body's rung and, where there are ids, the ids.
fn read(endpoint: Endpoint, body: &Value) -> (Rung, Vec<u32>) {
    let raw = body.to_string();
    let body = Body::parse(endpoint, raw.as_bytes()).unwrap();
    let prompt = PROMPTER.read(&body).unwrap();
    let ids = match prompt.data() {
        Data::Ids(packed) => {
            packed.chunks_exact(4).map(|id| u32::from_le_bytes(id.try_into().unwrap())).collect()
        }
        Data::Text(_) => Vec::new(),
    };
    (prompt.rung(), ids)
}

fn chat(message: &Value, fields: &Value) -> Rung {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}, message]});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    read(Endpoint::ChatCompletions, &body).0
}

#[test]
fn what_cannot_be_exact_is_text() {
    let plain = json!({"role": "user", "content": "x"});
    assert_eq!(chat(&plain, &json!({})), Rung::Local);
    let part = |part: Value| json!({"role": "user", "content": [part]});
    for message in [
        part(json!({"type": "image_pil", "image_pil": 7})),
        part(json!({"type": "text", "text": "x", "uuid": "u"})),
        part(json!({"text": "x"})),
        part(json!({"type": "text", "text": 7})),
        json!({"role": "user", "content": 7}),
        json!({"role": 7, "content": "x"}),
        json!({"content": "x"}),
        json!("x"),
        json!({"role": "assistant", "tool_calls": [{"type": "custom", "function": {}}]}),
    ] {
        assert_eq!(chat(&message, &json!({})), Rung::Text, "{message}");
    }
    for fields in [
        json!({"chat_template": "{{ 1 }}"}),
        json!({"truncate_prompt_tokens": 5}),
        json!({"continue_final_message": true}),
        json!({"add_generation_prompt": 0}),
        json!({"kv_transfer_params": {"prompt_token_ids": [1]}}),
        json!({"chat_template_kwargs": {"tools": []}}),
        json!({"chat_template_kwargs": 7}),
        json!({"tools": []}),
        json!({"tools": [{"type": "web_search"}]}),
        json!({"tools": [{"function": {"name": "f", "parameters": []}}]}),
        json!({"tools": [{"function": {}}]}),
        json!({"messages": []}),
    ] {
        assert_eq!(chat(&plain, &fields), Rung::Text, "{fields}");
    }
    for body in [
        json!({"input": "x", "previous_response_id": "r"}),
        json!({"input": "x", "truncation": "auto"}),
        json!({"input": "x", "tools": [{"type": "web_search"}]}),
        json!({"input": [{"type": "item_reference", "id": "x"}]}),
        json!({"input": [{"role": "user"}]}),
        json!({"input": [7]}),
    ] {
        assert_eq!(read(Endpoint::Responses, &body).0, Rung::Text, "{body}");
    }
    for body in [
        json!({"messages": [plain], "thinking": {"type": "?"}}),
        json!({"messages": [{"role": "user", "content": [{"type": "document"}]}]}),
        json!({"messages": [{"role": "critic", "content": "x"}]}),
        json!({"messages": [plain], "tools": [{"name": "f"}]}),
        json!({"messages": [plain], "system": 7}),
    ] {
        assert_eq!(read(Endpoint::Messages, &body).0, Rung::Text, "{body}");
    }
    let raw = br#"{"messages": [{"role": "user", "content": "\ud800"}]}"#;
    let body = Body::parse(Endpoint::ChatCompletions, raw).unwrap();
    assert_eq!(PROMPTER.read(&body).unwrap().rung(), Rung::Text);
}

#[test]
fn hostile_chats_cost_no_more_than_their_bytes() {
    let member = |n: usize| (0..n).map(|i| format!("\"{i}\":1,")).collect::<String>();
    let keys = member(500_000);
    for body in [
        format!(r#"{{"messages": [{{{keys}"role": "user", "content": "x"}}]}}"#),
        format!(
            r#"{{"messages": [{{"role": "user", "content": "x"}}], "chat_template_kwargs": {{{keys}"a": 1}}}}"#
        ),
        format!(r#"{{"messages": [{{"role": "user", "content": [{}7]}}]}}"#, "[],".repeat(1_000_000)),
        format!(r#"{{"messages": [{}7]}}"#, "{},".repeat(1_000_000)),
        format!(r#"{{"messages": [{{"role": "user", "content": "{}"}}]}}"#, "\\u00e9".repeat(500_000)),
        format!(r#"{{"messages": [{}]}}"#, "[".repeat(5_000) + &"]".repeat(5_000)),
    ] {
        let start = Instant::now();
        let body = Body::parse(Endpoint::ChatCompletions, body.as_bytes()).unwrap();
        let _rung = PROMPTER.read(&body).unwrap().rung();
        assert!(start.elapsed().as_secs() < 10);
    }
}

#[test]
fn a_growing_chat_is_a_growing_prefix() {
    let mut messages = vec![json!({"role": "system", "content": "Rules. ".repeat(50)})];
    let mut last: Vec<u32> = Vec::new();
    for turn in 0..5 {
        messages.push(json!({"role": "user", "content": format!("question {turn}")}));
        let body = json!({"messages": messages, "add_generation_prompt": false});
        let (rung, ids) = read(Endpoint::ChatCompletions, &body);
        assert_eq!((rung, &ids[..last.len()]), (Rung::Local, &last[..]));
        messages.push(json!({"role": "assistant", "content": format!("answer {turn}")}));
        last = ids;
    }
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[ \t\n\r]{0,4}[a-zA-Z']{0,8}[0-9]{0,4}[!-/]{0,3}",
        prop::sample::select(vec![
            "<|im_start|>",
            "<|im_end|>",
            "<tool_call>",
            "<|endoftext|",
            "e\u{301}",
            "日本",
            "👨\u{200d}👩"
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_fast_tokenizer_is_the_reference(text in text(), special in any::<bool>()) {
        let expected = REFERENCE.encode_fast(text.as_str(), special).unwrap().get_ids().to_vec();
        prop_assert_eq!(PROMPTER.exact().unwrap().encode(&text, special), Ok(expected));
    }

    #[test]
    fn a_chat_is_its_messages_between_their_markers(contents in prop::collection::vec(text(), 1..4)) {
        let messages: Vec<_> = contents.iter().map(|content| json!({"role": "user", "content": content})).collect();
        let rendered: String =
            contents.iter().map(|content| format!("<|im_start|>user\n{content}<|im_end|>\n")).collect();
        let expected = REFERENCE.encode_fast(rendered, false).unwrap().get_ids().to_vec();
        let body = json!({"messages": messages, "add_generation_prompt": false});
        prop_assert_eq!(read(Endpoint::ChatCompletions, &body), (Rung::Local, expected));
    }

    #[test]
    fn odd_chats_give_ids_or_text(
        role in prop_oneof![Just("user"), Just("assistant"), Just("tool"), Just("system"), Just("developer")],
        content in odd(),
        calls in odd(),
        tools in odd(),
        keywords in odd(),
    ) {
        let body = json!({
            "messages": [{"role": role, "content": content, "tool_calls": calls, "name": keywords}],
            "tools": tools, "chat_template_kwargs": keywords,
        });
        let rung = read(Endpoint::ChatCompletions, &body).0;
        prop_assert!(matches!(rung, Rung::Local | Rung::Media | Rung::Text));
    }

    #[test]
    fn odd_responses_and_messages_give_ids_or_text(
        kind in prop::sample::select(vec!["message", "function_call", "function_call_output", "reasoning", "tool_use"]),
        role in prop::sample::select(vec!["user", "assistant", "system"]),
        content in odd(),
        other in odd(),
        tools in odd(),
    ) {
        let item = json!({
            "type": kind, "role": role, "content": content, "output": other, "summary": other, "name": "f",
            "call_id": "c", "arguments": "{", "status": "completed",
        });
        let body = json!({"input": [item], "tools": tools, "reasoning": other, "chat_template_kwargs": other});
        prop_assert!(matches!(read(Endpoint::Responses, &body).0, Rung::Local | Rung::Text));
        let block = json!({"type": kind, "text": other, "input": other, "id": "i", "name": "f", "content": content});
        let messages = json!([{"role": role, "content": content}, {"role": role, "content": [block]}]);
        let body = json!({"messages": messages, "tools": tools, "system": other, "thinking": other});
        prop_assert!(matches!(read(Endpoint::Messages, &body).0, Rung::Local | Rung::Text));
    }

    #[test]
    fn the_order_of_fields_does_not_matter(content in text(), name in text(), effort in any::<bool>()) {
        let (content, name) = (json!(content).to_string(), json!(name).to_string());
        let effort = if effort { "\"low\"" } else { "null" };
        let message = [format!("\"role\": \"user\", \"name\": {name}, \"content\": {content}"), format!("\"content\": {content}, \"name\": {name}, \"role\": \"user\"")];
        let bodies = [
            format!("{{\"messages\": [{{{}}}], \"reasoning_effort\": {effort}, \"model\": \"m\"}}", message[0]),
            format!("{{\"model\": \"m\", \"reasoning_effort\": {effort}, \"messages\": [{{{}}}]}}", message[1]),
        ];
        let texts = bodies.map(|raw| {
            let body = Body::parse(Endpoint::ChatCompletions, raw.as_bytes()).unwrap();
            PROMPTER.exact().unwrap().text(&body)
        });
        prop_assert_eq!(&texts[0], &texts[1]);
        prop_assert!(texts[0].is_ok());
    }
}

/// JSON with the names that matter in places where they may not.
fn odd() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::sample::select(vec!["", "text", "function", "{}", "{\"a\": [1e400]}", "f"])
            .prop_map(Value::from),
    ];
    let names = vec!["type", "text", "function", "name", "arguments", "parameters", "id", "properties"];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let member = (prop::sample::select(names.clone()), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(member, 0..5).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}
