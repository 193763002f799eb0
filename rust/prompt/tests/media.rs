//! Chats with media: exact before the first, told apart by what the media are after it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Value, json};
use warmroute_core::block::{BlockHash, BlockHasher, Namespace};
use warmroute_prompt::{Body, Data, Endpoint, LoadOptions, Prompter, Refused, Rung};

fn prompter(template: Option<&str>) -> Prompter {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let template: Option<PathBuf> =
        template.map(|name| root.join(format!("tests/support/templates/{name}.jinja")));
    let options = LoadOptions { chat_template: template, ..LoadOptions::default() };
    Prompter::load(&root.join("python/warmroute/data/tokenizer"), &options).unwrap()
}

static STRING: LazyLock<Prompter> = LazyLock::new(|| prompter(None));
static PARTS: LazyLock<Prompter> = LazyLock::new(|| prompter(Some("parts")));

fn ids(prompter: &Prompter, messages: &Value) -> Vec<u32> {
    let raw = json!({ "messages": messages }).to_string();
    let body = Body::parse(Endpoint::ChatCompletions, raw.as_bytes()).unwrap();
    let prompt = prompter.read(&body).unwrap();
    assert_eq!((prompt.rung(), prompt.refused()), (Rung::Media, Some(Refused::Media)), "{messages}");
    let Data::Ids(packed) = prompt.data() else { panic!("{prompt:?}") };
    packed.chunks_exact(4).map(|id| u32::from_le_bytes(id.try_into().unwrap())).collect()
}

fn blocks(prompter: &Prompter, messages: &Value) -> Vec<BlockHash> {
    let packed: Vec<u8> = ids(prompter, messages).into_iter().flat_map(u32::to_le_bytes).collect();
    let mut out = Vec::new();
    BlockHasher::new(4, 0).hash_ids(&Namespace::default(), &packed, &mut out);
    out
}

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

/// A long text, one image, and a long text again.
fn chat(part: &Value) -> Value {
    let text = |word: &str| json!({"type": "text", "text": format!("{word} ").repeat(60)});
    json!([
        {"role": "system", "content": "Rules. ".repeat(40)},
        {"role": "user", "content": [text("before"), part, text("after")]},
        {"role": "assistant", "content": "seen ".repeat(40)},
        {"role": "user", "content": "And now? ".repeat(20)},
    ])
}

fn common(left: &[BlockHash], right: &[BlockHash]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[test]
fn other_images_share_what_is_before_them_and_nothing_after() {
    for prompter in [&*STRING, &*PARTS] {
        let (first, second) = (chat(&image("https://a/1.png")), chat(&image("https://a/2.png")));
        let (left, right) = (blocks(prompter, &first), blocks(prompter, &second));
        let tokens = ids(prompter, &first).iter().position(|id| *id >= 1 << 31).unwrap();
        assert_eq!(common(&left, &right), tokens / 4);
        assert!(left.iter().skip(tokens / 4).all(|block| !right.contains(block)));
        assert!(left.len() > tokens / 4 + 20);
        assert_eq!(left, blocks(prompter, &first));
    }
}

#[test]
fn tokens_before_an_image_are_those_of_the_text() {
    let messages = chat(&image("https://a/1.png"));
    let found = ids(&PARTS, &messages);
    let exact = found.iter().position(|id| *id >= 1 << 31).unwrap();
    let mut text = messages;
    text[1]["content"][1] = json!({"type": "text", "text": "\u{1}"});
    let raw = json!({ "messages": text }).to_string();
    let body = Body::parse(Endpoint::ChatCompletions, raw.as_bytes()).unwrap();
    let all = PARTS.exact().unwrap().ids(&body).unwrap();
    assert_eq!(found[..exact], all[..exact]);
    let before = PARTS.exact().unwrap().encode(&"before ".repeat(60), false).unwrap();
    assert!(exact > before.len());
}

#[test]
fn a_medium_is_what_its_uuid_or_its_content_says() {
    let same = |left: &Value, right: &Value| ids(&PARTS, &chat(left)) == ids(&PARTS, &chat(right));
    let with_uuid =
        |url: &str, uuid: &str| json!({"type": "image_url", "image_url": {"url": url}, "uuid": uuid});
    assert!(same(&with_uuid("a", "1"), &with_uuid("b", "1")));
    assert!(same(&with_uuid("a", "1"), &json!({"type": "image_url", "image_url": null, "uuid": "1"})));
    assert!(!same(&with_uuid("a", "1"), &with_uuid("a", "2")));
    assert!(!same(&image("a"), &image("b")));
    assert!(!same(&with_uuid("b", "a"), &image("a")), "a name is no URL");
    let sound = |data: &str| json!({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}});
    assert!(same(&sound("AAAA"), &sound("AAAA")) && !same(&sound("AAAA"), &sound("AAAB")));
}

#[test]
fn each_medium_counts() {
    let two = |first: &str, second: &str| json!([{"role": "user", "content": [image(first), {"type": "text", "text": "and "}, image(second)]}]);
    for prompter in [&*STRING, &*PARTS] {
        let base = ids(prompter, &two("a", "b"));
        assert_eq!(base.iter().filter(|id| **id >= 1 << 31).count(), 4);
        assert_ne!(base, ids(prompter, &two("a", "c")));
        assert_ne!(base, ids(prompter, &two("b", "a")));
    }
}

#[test]
fn what_a_client_writes_is_not_taken_for_a_medium() {
    let image = r#"{"type": "image_url", "image_url": {"url": "a"}}"#;
    let chat = |text: &str, tool: &str| {
        format!(
            r#"{{"messages": [{{"role": "user", "content": [{{"type": "text", "text": "{text}"}}, {image}]}}],
                "tools": [{{"type": "function", "function": {{"name": "f", "description": "{tool}"}}}}]}}"#
        )
    };
    let rung = |raw: &str| {
        let body = Body::parse(Endpoint::ChatCompletions, raw.as_bytes()).unwrap();
        PARTS.read(&body).unwrap().rung()
    };
    assert_eq!(rung(&chat("A", "B")), Rung::Media);
    for mark in ["\u{fdd1}", r"\ufdd1", r"\uFdD1"] {
        assert_eq!((rung(&chat(mark, "B")), rung(&chat("A", mark))), (Rung::Text, Rung::Text), "{mark}");
    }
}
