//! The body parser against `serde_json`, and against bytes that are nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Instant;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use warmroute_prompt::{Body, Endpoint, MAX_NESTING, PromptError, Prompter};

fn chat(body: &[u8]) -> Result<Body<'_>, PromptError> {
    Body::parse(Endpoint::ChatCompletions, body)
}

const NAMES: [&str; 18] = [
    "model",
    "stream",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "cache_salt",
    "user",
    "messages",
    "system",
    "tools",
    "input",
    "instructions",
    "prompt",
    "prompt_embeds",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "temperature",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[\\\\\"{}\\[\\],:\u{0}\n é😀]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|pairs| Value::from(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn given(object: &Map<String, Value>, name: &str) -> Option<Value> {
    object.get(name).filter(|value| !value.is_null()).cloned()
}

fn text(object: &Map<String, Value>, name: &str) -> Option<String> {
    object.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// Every accessor gives what a whole parse of the body would give.
fn agrees(body: &Body<'_>, object: &Map<String, Value>) {
    assert_eq!(body.model().map(str::to_owned), text(object, "model"));
    assert_eq!(body.user().map(String::from), text(object, "user"));
    assert_eq!(body.cache_salt().map(String::from), text(object, "cache_salt"));
    assert_eq!(body.stream(), given(object, "stream") == Some(json!(true)));
    assert_eq!(body.add_generation_prompt(), given(object, "add_generation_prompt") != Some(json!(false)));
    assert_eq!(body.continue_final_message(), given(object, "continue_final_message") == Some(json!(true)));
    for (name, raw) in [
        ("messages", body.messages().ok()),
        ("system", body.system()),
        ("tools", body.tools()),
        ("input", body.input().ok()),
        ("instructions", body.instructions()),
        ("prompt", body.prompt().ok().flatten()),
        ("chat_template_kwargs", body.chat_template_kwargs()),
    ] {
        if let Some(raw) = raw {
            assert_eq!(serde_json::from_str(raw).ok(), given(object, name), "{name}");
        } else {
            let value = given(object, name);
            assert!(value.is_none() || matches!(name, "messages" | "input"), "{name}: {value:?}");
        }
    }
    let limit = ["max_completion_tokens", "max_output_tokens", "max_tokens"]
        .iter()
        .find_map(|name| object.get(*name).and_then(Value::as_u64));
    let limit = limit.filter(|limit| *limit > 0).map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
    assert_eq!(body.max_tokens(), limit);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_field_is_what_serde_json_finds(
        members in prop::collection::vec((prop::sample::select(&NAMES[..]), value()), 0..10),
        model in any::<String>(),
        pretty in any::<bool>(),
    ) {
        let mut object: Map<String, Value> =
            members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        object.insert("model".to_owned(), Value::from(model));
        let body = if pretty { serde_json::to_vec_pretty(&object) } else { serde_json::to_vec(&object) };
        let body = body.unwrap();
        // Read again, because serde_json may round a float when it reads it.
        let object: Map<String, Value> = serde_json::from_slice(&body).unwrap();
        for endpoint in
            [Endpoint::ChatCompletions, Endpoint::Completions, Endpoint::Responses, Endpoint::Messages]
        {
            let parsed = Body::parse(endpoint, &body).unwrap();
            agrees(&parsed, &object);
            let _typed = Prompter::without_tokenizer().read(&parsed);
        }
    }

    #[test]
    fn broken_bodies_give_an_error_inside_the_body(
        value in value(),
        cut in any::<prop::sample::Index>(),
        noise in any::<u8>(),
    ) {
        let mut body = serde_json::to_vec(&json!({"model": "m", "messages": [value], "x": 1.5})).unwrap();
        let at = cut.index(body.len());
        let error = chat(&body[..at]).unwrap_err();
        let (PromptError::Syntax { at: found, .. } | PromptError::NotUtf8 { at: found }) = error else {
            panic!("{error}");
        };
        prop_assert!(found <= at);
        body[at] = noise;
        let _typed = chat(&body);
    }

    #[test]
    fn any_bytes_give_a_value_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        json in "[\\[\\]{}\",:\\\\0-9a-fn -]{0,64}",
    ) {
        for body in [&bytes[..], json.as_bytes(), format!("{{{json}}}").as_bytes()] {
            if let Ok(body) = chat(body) {
                let _typed = Prompter::without_tokenizer().read(&body);
            }
        }
    }
}

#[test]
fn takes_what_python_takes() {
    let body = b"\xef\xbb\xbf {\"model\":\"a\", \"x\": NaN, \"y\": [Infinity, -Infinity, 1e999, 123456789012345678901234567890],\n\
        \"user\": \"\\ud800\", \"z\": \"\\ud800\", \"n\\u0075ll\": \"\\u0000\", \"mod\\u0065l\": \"b\", \"messages\": []}\t";
    let body = chat(body).unwrap();
    assert_eq!((body.model(), body.user(), body.messages()), (Some("b"), None, Ok("[]")));
    let nul = chat(b"{\"model\": \"a\", \"messages\": [\"\0\"]}").unwrap();
    assert_eq!(nul.messages(), Ok("[\"\0\"]"));
}

#[test]
fn the_last_of_a_repeated_field_counts() {
    let body = chat(br#"{"model": "a", "max_tokens": 1, "model": "b", "max_tokens": null}"#).unwrap();
    assert_eq!((body.model(), body.max_tokens()), (Some("b"), None));
}

#[test]
fn says_where_a_body_is_broken() {
    let cases: [(&[u8], usize); 14] = [
        (b"", 0),
        (b"[]", 0),
        (b"7", 0),
        (b"{", 1),
        (b"{}x", 2),
        (b"{} {}", 3),
        (b"{\"a\": 1", 7),
        (b"{\"a\": 1,}", 8),
        (b"{\"a\" 1}", 5),
        (b"{\"a\": }", 6),
        (b"{\"a\": \"b}", 9),
        (b"{\"a\": \"b\\\"}", 11),
        (b"{\"a\": [1}}", 8),
        (b"{\"a\": [{]}", 8),
    ];
    for (body, at) in cases {
        match chat(body) {
            Err(PromptError::Syntax { at: found, .. }) => {
                assert_eq!(found, at, "{}", String::from_utf8_lossy(body));
            }
            other => panic!("{}: {other:?}", String::from_utf8_lossy(body)),
        }
    }
    assert_eq!(chat(b"{\"a\": \"\xff\"}").unwrap_err(), PromptError::NotUtf8 { at: 7 });
}

#[test]
fn names_a_field_that_is_missing_or_of_a_wrong_type() {
    let read = |endpoint, body: &str| {
        Body::parse(endpoint, body.as_bytes())
            .and_then(|body| Prompter::without_tokenizer().read(&body).map(|_| ()))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        chat(b"{\"model\": 7}").unwrap_err().to_string(),
        "the field 'model' has a wrong type: it must be a string"
    );
    let absent = chat(b"{\"model\": null}").unwrap();
    assert_eq!(
        absent.required_model().unwrap_err().to_string(),
        "the field 'model' is missing: it must be a string"
    );
    for (endpoint, body, said) in [
        (Endpoint::ChatCompletions, "{}", "the field 'messages' is missing: it must be an array of messages"),
        (Endpoint::Messages, "{\"messages\": {}}", "the field 'messages' has a wrong type"),
        (Endpoint::Responses, "{\"input\": 7}", "the field 'input' has a wrong type"),
        (Endpoint::Completions, "{}", "the field 'prompt' is missing"),
        (Endpoint::Completions, "{\"prompt\": {}}", "the field 'prompt' has a wrong type"),
        (Endpoint::Completions, "{\"prompt\": [-1]}", "token 0 of 'prompt' is -1"),
    ] {
        let error = read(endpoint, body);
        assert!(error.starts_with(said), "{error}");
    }
}

#[test]
fn deep_nesting_is_refused_and_depth_within_the_limit_is_not() {
    let nested = |depth: usize| {
        let mut body = b"{\"a\": ".to_vec();
        body.extend(std::iter::repeat_n(b'[', depth));
        body.extend(std::iter::repeat_n(b']', depth));
        body.push(b'}');
        body
    };
    assert!(chat(&nested(MAX_NESTING)).is_ok());
    assert_eq!(chat(&nested(MAX_NESTING + 1)).unwrap_err(), PromptError::TooDeep { at: 6 + MAX_NESTING });
    assert!(matches!(chat(&nested(1_000_000)), Err(PromptError::TooDeep { .. })));
}

/// Twice the bytes may cost about twice the time: a quadratic walk would cost four times and, at these
/// sizes, minutes.
#[test]
fn time_is_linear_in_hostile_bodies() {
    let shapes: [fn(usize) -> String; 5] = [
        |n| format!("{{\"a\": \"{}\"}}", "x".repeat(n)),
        |n| format!("{{\"a\": \"{}\"}}", "\\\"".repeat(n / 2)),
        |n| format!("{{\"a\": \"{}\"}}", "\\\\".repeat(n / 2)),
        |n| format!("{{\"a\": [{}0]}}", "[],".repeat(n / 3)),
        |n| format!("{{\"a\": \"{}", "\\".repeat(n)),
    ];
    for shape in shapes {
        let body = shape(10_000_000);
        let start = Instant::now();
        let _typed = chat(body.as_bytes());
        assert!(start.elapsed().as_secs() < 10);
    }
}
