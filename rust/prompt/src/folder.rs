//! A Hugging Face tokenizer folder, as files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::LoadError;

/// What the files of a folder say.
#[derive(Debug)]
pub(crate) struct Folder {
    /// Where `tokenizer.json` is.
    pub(crate) path: PathBuf,
    /// `tokenizer.json`, completed from `tokenizer_config.json`.
    pub(crate) tokenizer: Value,
    /// `bos_token` and the like, by name, as templates see them.
    pub(crate) named_tokens: Vec<(String, String)>,
    /// Chat templates; one without a name is `default`.
    pub(crate) templates: Vec<Template>,
}

/// The source of a chat template.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) name: String,
    pub(crate) source: String,
    /// The file it stands in.
    pub(crate) path: PathBuf,
}

impl Template {
    /// The template that is the whole of a file.
    ///
    /// # Errors
    /// [`LoadError::Read`].
    pub(crate) fn read(path: &Path) -> Result<Template, LoadError> {
        Ok(Template { name: Template::DEFAULT.to_owned(), source: read(path)?, path: path.to_owned() })
    }

    /// The name of a template that has no other.
    pub(crate) const DEFAULT: &str = "default";
}

impl Folder {
    /// Reads `path`, a folder or a `tokenizer.json` in one.
    ///
    /// # Errors
    /// [`LoadError`]; only `tokenizer.json` must be there.
    pub(crate) fn read(path: &Path) -> Result<Folder, LoadError> {
        let file = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
        let beside = |name: &str| file.with_file_name(name);
        let mut tokenizer = parse(&file, &read(&file)?)?;
        let config_path = beside("tokenizer_config.json");
        let config = optional_json(&config_path)?;
        let special = optional_json(&beside("special_tokens_map.json"))?;
        complete(&mut tokenizer, &config);
        if is_qwen2(&config, &optional_json(&beside("config.json"))?) && tokenizer["normalizer"].is_null() {
            tokenizer["normalizer"] = json!({"type": "NFC"});
        }
        let named_tokens = NAMED_TOKENS
            .iter()
            .filter_map(|name| {
                let token = content(config.get(*name)).or_else(|| content(special.get(*name)))?;
                Some(((*name).to_owned(), token.to_owned()))
            })
            .collect();
        let template = beside("chat_template.jinja");
        let templates = if template.exists() {
            vec![Template::read(&template)?]
        } else {
            config_templates(config.get("chat_template"), &config_path)
        };
        Ok(Folder { path: file, tokenizer, named_tokens, templates })
    }
}

/// The tokens that have names in a template.
const NAMED_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// A token is written as a string, or as an object with its text in `content`.
fn content(token: Option<&Value>) -> Option<&str> {
    let token = token?;
    token.as_str().or_else(|| token.get("content")?.as_str())
}

/// Adds the tokens that only the configuration declares, and takes out padding and truncation, which no
/// request to a worker uses.
fn complete(tokenizer: &mut Value, config: &Map<String, Value>) {
    let Some(tokenizer) = tokenizer.as_object_mut() else { return };
    tokenizer.insert("padding".to_owned(), Value::Null);
    tokenizer.insert("truncation".to_owned(), Value::Null);
    let Some(declared) = config.get("added_tokens_decoder").and_then(Value::as_object) else { return };
    let Some(added) = tokenizer.entry("added_tokens").or_insert_with(|| json!([])).as_array_mut() else {
        return;
    };
    let mut missing: Vec<(u64, &Value)> = declared
        .iter()
        .filter_map(|(id, token)| Some((id.parse().ok()?, token)))
        .filter(|(id, _)| !added.iter().any(|token| token.get("id").and_then(Value::as_u64) == Some(*id)))
        .collect();
    missing.sort_by_key(|(id, _)| *id);
    for (id, token) in missing {
        let flag = |name: &str| token.get(name).and_then(Value::as_bool).unwrap_or(false);
        added.push(json!({
            "id": id,
            "content": content(Some(token)).unwrap_or_default(),
            "single_word": flag("single_word"),
            "lstrip": flag("lstrip"),
            "rstrip": flag("rstrip"),
            "normalized": flag("normalized"),
            "special": flag("special"),
        }));
    }
}

/// Whether transformers 5 builds the tokenizer from its class for Qwen 2, which always normalises.
fn is_qwen2(config: &Map<String, Value>, model: &Map<String, Value>) -> bool {
    let class = config.get("tokenizer_class").and_then(Value::as_str).unwrap_or_default();
    class.starts_with("Qwen2Tokenizer") || model.get("model_type").and_then(Value::as_str) == Some("qwen2")
}

fn config_templates(template: Option<&Value>, path: &Path) -> Vec<Template> {
    let of = |name: &str, source: &str| Template {
        name: name.to_owned(),
        source: source.to_owned(),
        path: path.to_owned(),
    };
    let named = |entry: &Value| Some(of(entry.get("name")?.as_str()?, entry.get("template")?.as_str()?));
    match template {
        Some(Value::String(source)) => vec![of(Template::DEFAULT, source)],
        Some(Value::Array(entries)) => entries.iter().filter_map(named).collect(),
        _ => Vec::new(),
    }
}

fn read(path: &Path) -> Result<String, LoadError> {
    fs::read_to_string(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })
}

fn parse(path: &Path, text: &str) -> Result<Value, LoadError> {
    serde_json::from_str(text)
        .map_err(|error| LoadError::Invalid { path: path.to_owned(), reason: error.to_string() })
}

fn optional_json(path: &Path) -> Result<Map<String, Value>, LoadError> {
    if !path.exists() {
        return Ok(Map::new());
    }
    match parse(path, &read(path)?)? {
        Value::Object(object) => Ok(object),
        _ => Err(LoadError::Invalid { path: path.to_owned(), reason: "it is not a JSON object".to_owned() }),
    }
}
