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
    /// Chat templates by name; one without a name is `default`.
    pub(crate) templates: Vec<(String, String)>,
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
        let config = optional_json(&beside("tokenizer_config.json"))?;
        let special = optional_json(&beside("special_tokens_map.json"))?;
        complete(&mut tokenizer, &config);
        let named_tokens = NAMED_TOKENS
            .iter()
            .filter_map(|name| {
                let token = content(config.get(*name)).or_else(|| content(special.get(*name)))?;
                Some(((*name).to_owned(), token.to_owned()))
            })
            .collect();
        let templates = match optional(&beside("chat_template.jinja"))? {
            Some(template) => vec![("default".to_owned(), template)],
            None => config_templates(config.get("chat_template")),
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

fn config_templates(template: Option<&Value>) -> Vec<(String, String)> {
    let named = |entry: &Value| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        Some((text("name")?, text("template")?))
    };
    match template {
        Some(Value::String(template)) => vec![("default".to_owned(), template.clone())],
        Some(Value::Array(entries)) => entries.iter().filter_map(named).collect(),
        _ => Vec::new(),
    }
}

fn read(path: &Path) -> Result<String, LoadError> {
    fs::read_to_string(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })
}

fn optional(path: &Path) -> Result<Option<String>, LoadError> {
    if path.exists() { read(path).map(Some) } else { Ok(None) }
}

fn parse(path: &Path, text: &str) -> Result<Value, LoadError> {
    serde_json::from_str(text)
        .map_err(|error| LoadError::Invalid { path: path.to_owned(), reason: error.to_string() })
}

fn optional_json(path: &Path) -> Result<Map<String, Value>, LoadError> {
    match optional(path)?.map(|text| parse(path, &text)).transpose()? {
        None => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object),
        Some(_) => {
            Err(LoadError::Invalid { path: path.to_owned(), reason: "it is not a JSON object".to_owned() })
        }
    }
}
