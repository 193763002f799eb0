//! Folders whose tokenizer the worker does not take from `tokenizer.json`.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::LoadError;

/// What to do where only the worker can say what the tokens are.
const WITHOUT: &str = "leave the tokenizer out, and prompts are matched through the workers or as text";

const CONVERT: &str = "transformers writes a tokenizer.json: \
    AutoTokenizer.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER); the workers must use the new folder, too";

/// Refuses `path` where it has no `tokenizer.json` (`file`) but another tokenizer, or one that vLLM prefers.
///
/// # Errors
/// [`LoadError::Unsupported`].
pub(super) fn refuse(path: &Path, file: &Path) -> Result<(), LoadError> {
    let unsupported = |reason: String| Err(LoadError::Unsupported { path: path.to_owned(), reason });
    if !path.is_dir() && path.extension().is_some_and(|extension| extension == "gguf") {
        return unsupported(format!("a GGUF file has no tokenizer.json; {WITHOUT}"));
    }
    // Given by its own name, the file is meant.
    if !path.is_dir() {
        return Ok(());
    }
    let names = names(path);
    let has =
        |start: &str, end: &str| names.iter().any(|name| name.starts_with(start) && name.ends_with(end));
    let mistral = has("tekken.json", "") || has("tokenizer.model.v", "");
    // vLLM looks for the weights; in a folder of tokenizer files alone, the parameters tell the same.
    if mistral && (has("consolidated", ".safetensors") || has("params.json", "") || !file.exists()) {
        return unsupported(format!(
            "vLLM encodes with Mistral's own tokenizer, not with tokenizer.json; {WITHOUT}, \
             or run workers with --tokenizer-mode hf and name the tokenizer.json itself"
        ));
    }
    if file.exists() {
        return Ok(());
    }
    let found = ["tokenizer.model", "tiktoken", "vocab.json", "vocab.txt", ".gguf"];
    let found =
        found.iter().find(|what| has("", what) || has("tokenizer.model", "") && **what == "tokenizer.model");
    match found {
        Some(&".gguf") => unsupported(format!("it has a GGUF file and no tokenizer.json; {WITHOUT}")),
        Some(what) => unsupported(format!("it has {what} and no tokenizer.json; {CONVERT}")),
        None => Ok(()),
    }
}

/// Refuses what the configuration turns on and nothing here does.
///
/// # Errors
/// [`LoadError::Unsupported`].
pub(super) fn refuse_config(path: &Path, config: &Map<String, Value>) -> Result<(), LoadError> {
    for (key, effect) in [
        ("split_special_tokens", "special tokens are encoded as text"),
        ("fix_mistral_regex", "the pre-tokenizer is replaced"),
    ] {
        if config.get(key) == Some(&Value::Bool(true)) {
            let reason = format!("with {key}, {effect}, which is not followed here; {WITHOUT}");
            return Err(LoadError::Unsupported { path: path.to_owned(), reason });
        }
    }
    Ok(())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
