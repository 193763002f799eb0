//! Tokenizers that transformers 5 builds from their class, and not from the whole of `tokenizer.json`.
//!
//! The vocabulary, the merges, the added tokens and the post-processor are the file's; normaliser and
//! pre-tokenizer are the class's own. Other classes are left as their files have them: where a worker does
//! otherwise, its first comparison with the router says so.

use serde_json::{Map, Value, json};

/// The pre-tokenizer's expression of Qwen 2 to 3.
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// That of Qwen 3.5, where marks belong to words.
const QWEN_3_5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Gives `tokenizer` what its class has in the place of what the file says.
///
/// `config` is `tokenizer_config.json`, `model` the model's `config.json`.
pub(super) fn rebuild(tokenizer: &mut Value, config: &Map<String, Value>, model: &Map<String, Value>) {
    match class(config, model) {
        Some(Class::Qwen(expression)) if is_byte_level(tokenizer) => qwen(tokenizer, expression),
        Some(Class::Llama) if tokenizer["model"]["byte_fallback"] == true => llama(tokenizer, config),
        _ => {}
    }
}

/// Named tokens that the class has where neither the configuration nor the map says anything of them.
pub(super) fn defaults(
    tokenizer: &Value,
    config: &Map<String, Value>,
    model: &Map<String, Value>,
) -> &'static [(&'static str, &'static str)] {
    match class(config, model) {
        Some(Class::Qwen(_)) if is_byte_level(tokenizer) => {
            &[("unk_token", "<|endoftext|>"), ("eos_token", "<|endoftext|>"), ("pad_token", "<|endoftext|>")]
        }
        Some(Class::Llama) if tokenizer["model"]["byte_fallback"] == true => {
            &[("unk_token", "<unk>"), ("bos_token", "<s>"), ("eos_token", "</s>")]
        }
        _ => &[],
    }
}

/// Models whose chats vLLM 0.33 renders by its own code, by `model_type`. What their folders have as a chat template
/// is another text.
const RENDERED_BY_TYPE: [&str; 1] = ["gpt_oss"];
/// The same, by architecture.
const RENDERED_BY_ARCHITECTURE: [&str; 8] = [
    "DeepseekV32ForCausalLM",
    "DeepseekV4ForCausalLM",
    "DeepseekV4ForConditionalGeneration",
    "DeepseekV41ForCausalLM",
    "InklingForCausalLM",
    "InklingForConditionalGeneration",
    "KimiK3ForConditionalGeneration",
    "MoonshotKimiaForCausalLM",
];

/// The name under which vLLM knows that it renders chats of `model`, a `config.json`, without a chat template.
pub(super) fn renders_itself(model: &Map<String, Value>) -> Option<&'static str> {
    let is = |known: &&str, value: &Value| value.as_str() == Some(*known);
    let kind = model.get("model_type");
    let by_type = RENDERED_BY_TYPE.into_iter().find(|known| kind.is_some_and(|kind| is(known, kind)));
    let mut architectures = model.get("architectures").and_then(Value::as_array).into_iter().flatten();
    by_type.or_else(|| {
        architectures.find_map(|value| RENDERED_BY_ARCHITECTURE.into_iter().find(|known| is(known, value)))
    })
}

enum Class {
    Qwen(&'static str),
    Llama,
}

/// The class that transformers takes: the configuration's, unless the model's type overrules it.
fn class(config: &Map<String, Value>, model: &Map<String, Value>) -> Option<Class> {
    let text = |object: &Map<String, Value>, key: &str| {
        object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let class = text(config, "tokenizer_class");
    let class = class.strip_suffix("Fast").unwrap_or(&class);
    match text(model, "model_type").as_str() {
        // Published with a class that is wrong for them.
        "qwen2" => Some(Class::Qwen(QWEN_2)),
        "qwen3_5" | "qwen3_5_moe" | "qwen3_5_moe_text" => Some(Class::Qwen(QWEN_3_5)),
        "qwen3_5_text" if class == "Qwen3_5Tokenizer" => Some(Class::Qwen(QWEN_3_5)),
        kind if class == "Qwen2Tokenizer" && (kind.is_empty() || kind.starts_with("qwen")) => {
            Some(Class::Qwen(QWEN_2))
        }
        "" | "llama" if class == "LlamaTokenizer" => Some(Class::Llama),
        _ => None,
    }
}

fn is_byte_level(tokenizer: &Value) -> bool {
    let pre = &tokenizer["pre_tokenizer"];
    let steps = pre["pretokenizers"].as_array().map_or(std::slice::from_ref(pre), Vec::as_slice);
    steps.iter().any(|step| step["type"] == "ByteLevel")
}

fn qwen(tokenizer: &mut Value, expression: &str) {
    tokenizer["normalizer"] = json!({"type": "NFC"});
    tokenizer["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
    ]});
    tokenizer["model"]["ignore_merges"] = json!(false);
}

fn llama(tokenizer: &mut Value, config: &Map<String, Value>) {
    let flag = |key: &str, default| config.get(key).and_then(Value::as_bool).unwrap_or(default);
    let scheme = match (flag("add_prefix_space", true), flag("legacy", false)) {
        (true, true) => "always",
        (true, false) => "first",
        (false, _) => "never",
    };
    tokenizer["normalizer"] = Value::Null;
    tokenizer["pre_tokenizer"] =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false});
    tokenizer["model"]["fuse_unk"] = json!(true);
    tokenizer["model"]["unk_token"] = Value::Null;
}
