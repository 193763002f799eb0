//! Rendering and encoding against a real vLLM, from files that `tests/support/golden_prompts.py` writes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use warmroute_prompt::{Body, Data, Endpoint, LoadOptions, Prompter, Rung};

/// What vLLM renders and we refuse, with any template.
const REFUSED: [&str; 11] = [
    "keyword of the renderer",
    "flags as numbers",
    "part with another field",
    "ids for reuse",
    "response: web search",
    "response: custom tool",
    "response: cut",
    "message: use without id",
    "message: reference in a result",
    "message: added tool",
    "message: result of an assistant",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn package() -> PathBuf {
    root().join("python/warmroute/data/tokenizer")
}

fn prompter(folder: &Path, template: Option<&str>) -> Prompter {
    let template = template.map(|name| root().join(format!("tests/support/templates/{name}.jinja")));
    let options = LoadOptions { chat_template: template, ..LoadOptions::default() };
    Prompter::load(folder, &options).unwrap()
}

/// Compares each case; gives the names of those that vLLM renders and we refuse.
fn compare(prompter: &Prompter, golden: &Path) -> Vec<String> {
    let cases: Vec<Value> = serde_json::from_slice(&fs::read(golden).unwrap()).unwrap();
    assert!(cases.len() > 50);
    let mut refused = Vec::new();
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let endpoint = match case["endpoint"].as_str().unwrap() {
            "chat" => Endpoint::ChatCompletions,
            "completion" => Endpoint::Completions,
            "responses" => Endpoint::Responses,
            _ => Endpoint::Messages,
        };
        let raw = case["body"].as_str().unwrap();
        let body = Body::parse(endpoint, raw.as_bytes()).unwrap();
        let exact = prompter.exact().unwrap();
        let (text, ids) = (exact.text(&body), exact.ids(&body));
        if case["refused"].is_string() {
            continue;
        }
        match text {
            Err(_) => refused.push(name.to_owned()),
            Ok(text) => {
                if let Some(expected) = case["text"].as_str() {
                    assert_eq!(text, expected, "{name}");
                }
                let expected: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
                assert_eq!(ids.unwrap(), expected, "{name}");
            }
        }
        check_prompt(prompter, &body, &case["ids"]);
    }
    refused
}

/// What a router gets is the same ids, or the text where they are refused.
fn check_prompt(prompter: &Prompter, body: &Body<'_>, expected: &Value) {
    let prompt = prompter.read(body).unwrap();
    match prompt.data() {
        Data::Ids(packed) => {
            let ids: Vec<Value> = packed
                .chunks_exact(4)
                .map(|id| Value::from(u32::from_le_bytes(id.try_into().unwrap())))
                .collect();
            assert_eq!((prompt.rung(), prompt.tokens() as usize), (Rung::Local, ids.len()));
            assert_eq!(&Value::from(ids), expected);
        }
        Data::Text(_) => assert_eq!(prompt.rung(), Rung::Text),
    }
}

#[test]
fn the_package_s_tokenizer_and_template() {
    let prompter = prompter(&package(), None);
    assert!(prompter.exact().unwrap().is_fast() && prompter.exact().unwrap().has_chat_template());
    let refused = compare(&prompter, &root().join("rust/prompt/tests/golden/package.json"));
    assert_eq!(refused, REFUSED);
}

#[test]
fn a_template_that_takes_parts() {
    let prompter = prompter(&package(), Some("parts"));
    let refused = compare(&prompter, &root().join("rust/prompt/tests/golden/parts.json"));
    assert_eq!(refused, REFUSED);
}

#[test]
fn a_template_that_knows_developers() {
    let prompter = prompter(&package(), Some("developer"));
    let refused = compare(&prompter, &root().join("rust/prompt/tests/golden/developer.json"));
    assert_eq!(refused, REFUSED);
}

/// Another model's tokenizer and template, which are too large or not ours to commit: a folder in
/// `WARMROUTE_GOLDEN_MODEL` and the golden file made of it in `WARMROUTE_GOLDEN_FILE`.
#[test]
fn a_model_given_by_the_environment() {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (Some(folder), Some(golden)) = (given("WARMROUTE_GOLDEN_MODEL"), given("WARMROUTE_GOLDEN_FILE"))
    else {
        println!("compared with the package's tokenizer only: WARMROUTE_GOLDEN_MODEL names no other model");
        return;
    };
    assert_eq!(compare(&prompter(&folder, None), &golden), REFUSED);
}
