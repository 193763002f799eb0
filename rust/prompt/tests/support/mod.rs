//! Tokenizers and templates with the properties that a cache of prompts can get wrong.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use warmroute_prompt::{LoadOptions, Prompter};

pub(crate) const TEMPLATES: [(&str, &str); 7] = [
    ("thinking", include_str!("../templates/thinking.jinja")),
    ("headers", include_str!("../templates/headers.jinja")),
    ("chatml", include_str!("../templates/chatml.jinja")),
    ("brackets", include_str!("../templates/brackets.jinja")),
    ("turns", include_str!("../templates/turns.jinja")),
    ("observing", include_str!("../templates/observing.jinja")),
    ("alternating", include_str!("../templates/alternating.jinja")),
];

/// The tokenizer that the package brings.
pub(crate) fn package() -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/warmroute/data/tokenizer");
    serde_json::from_str(&fs::read_to_string(folder.join("tokenizer.json")).unwrap()).unwrap()
}

/// An added token with the flags of `flags`.
fn added(id: usize, content: &str, flags: &[&str]) -> Value {
    let has = |flag: &str| flags.contains(&flag);
    json!({
        "id": id, "content": content, "single_word": has("single_word"), "lstrip": has("lstrip"),
        "rstrip": has("rstrip"), "normalized": has("normalized"), "special": true,
    })
}

/// The package's tokenizer with every added token flagged, and with further ones.
pub(crate) fn flagged(flags: &[&str], more: &[(&str, &[&str])]) -> Value {
    let mut tokenizer = package();
    let tokens = tokenizer["added_tokens"].as_array_mut().unwrap();
    for token in tokens.iter_mut() {
        for flag in flags {
            token[*flag] = Value::Bool(true);
        }
    }
    let next = tokens.iter().map(|token| token["id"].as_u64().unwrap()).max().unwrap() as usize + 1;
    tokens.extend(more.iter().enumerate().map(|(at, (content, flags))| added(next + at, content, flags)));
    tokenizer
}

/// The package's tokenizer with tokens around a whole input.
pub(crate) fn with_bos() -> Value {
    let mut tokenizer = package();
    let special = |content: &str| {
        let tokens = tokenizer["added_tokens"].as_array().unwrap();
        let id = tokens.iter().find(|token| token["content"] == content).unwrap()["id"].clone();
        json!({"id": content, "ids": [id], "tokens": [content]})
    };
    let (start, end) = ("<|im_start|>", "<|im_end|>");
    tokenizer["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": start, "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": end, "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {start: special(start), end: special(end)},
    });
    tokenizer
}

/// A tokenizer in the style of SentencePiece, which treats the start of an input in its own way.
pub(crate) fn metaspace(prepend: &str) -> Value {
    let mut vocab = Map::new();
    let mut add = |token: String| {
        let id = vocab.len();
        vocab.insert(token, json!(id));
    };
    add("<unk>".to_owned());
    (0..=255).for_each(|byte| add(format!("<0x{byte:02X}>")));
    ('!'..='~').chain(['▁']).for_each(|char| add(char.to_string()));
    let merges = ["▁ a", "▁ t", "h e", "▁t he", "i n", "e r", "▁ ▁", "▁▁ ▁▁", "1 2", "▁ 1", "u s", "us er"];
    merges.iter().for_each(|merge| add(merge.replace(' ', "")));
    let count = vocab.len();
    let names = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</think>"];
    let tokens: Vec<Value> =
        names.iter().enumerate().map(|(at, name)| added(count + at, name, &[])).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": tokens, "normalizer": null,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": prepend, "split": true},
        "post_processor": null, "decoder": null,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "vocab": vocab,
            "merges": merges,
        },
    })
}

/// The same with Llama 2's normalizer in the place of the pre-tokenizer.
pub(crate) fn prepend() -> Value {
    let mut tokenizer = metaspace("always");
    tokenizer["pre_tokenizer"] = Value::Null;
    tokenizer["normalizer"] = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ]});
    tokenizer
}

/// Its tokens are looked for in the normalised text, and nothing normalises it.
fn bare() -> Value {
    let mut tokenizer = flagged(&["normalized"], &[("hello", &["normalized", "lstrip"]), ("  ", &[])]);
    tokenizer["normalizer"] = json!({"type": "Sequence", "normalizers": []});
    tokenizer
}

pub(crate) fn tokenizers() -> Vec<(&'static str, Value)> {
    vec![
        ("package", package()),
        ("bos", with_bos()),
        ("rstrip", flagged(&["rstrip"], &[])),
        ("lstrip", flagged(&["lstrip"], &[])),
        ("both", flagged(&["lstrip", "rstrip"], &[("  ", &[])])),
        ("normalized", flagged(&[], &[("hello", &["normalized"]), ("e", &["normalized", "single_word"])])),
        ("bare", bare()),
        ("single_word", flagged(&["single_word"], &[])),
        ("words", flagged(&[], &[("user", &["single_word"]), ("im", &["single_word", "rstrip"])])),
        ("overlapping", flagged(&[], &[("<|im_start|>user", &[]), ("x<|im_end|>", &[]), ("x<|im", &[])])),
        ("behind", flagged(&[], &[("<|im_start|>user", &[]), (">\n", &[])])),
        ("first", metaspace("first")),
        ("always", metaspace("always")),
        ("never", metaspace("never")),
        ("prepend", prepend()),
    ]
}

/// A folder that is removed when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str, tokenizer: &Value, template: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("warmroute-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
        let config = json!({
            "bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "chat_template": template,
        });
        fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
        Folder(folder)
    }

    /// A prompter with a cache of so many bytes.
    pub(crate) fn load(&self, bytes: usize) -> Prompter {
        let options = LoadOptions { prompt_cache_bytes: Some(bytes), ..LoadOptions::default() };
        Prompter::load(&self.0, &options).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}
