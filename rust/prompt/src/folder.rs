//! A Hugging Face tokenizer folder, as files: what transformers makes of them when a worker loads it.

mod classes;
mod foreign;
mod templates;
mod tokens;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::LoadError;
pub(crate) use templates::Template;

/// What the files of a folder say.
#[derive(Debug)]
pub(crate) struct Folder {
    /// Where `tokenizer.json` is.
    pub(crate) path: PathBuf,
    /// `tokenizer.json`, with what the configuration adds to it and what its class replaces.
    pub(crate) tokenizer: Value,
    /// `bos_token` and the like, by name, as templates see them.
    pub(crate) named_tokens: Vec<(String, String)>,
    /// Chat templates; one without a name is `default`.
    pub(crate) templates: Vec<Template>,
    /// What vLLM knows the model by, where it renders chats by its own code and not with a template.
    pub(crate) renders_itself: Option<&'static str>,
}

impl Folder {
    /// Reads `path`, a folder or a `tokenizer.json` in one.
    ///
    /// # Errors
    /// [`LoadError`]; only `tokenizer.json` must be there.
    pub(crate) fn read(path: &Path) -> Result<Folder, LoadError> {
        let file = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
        foreign::refuse(path, &file)?;
        let beside = |name: &str| file.with_file_name(name);
        let mut tokenizer = parse(&file, &read(&file)?)?;
        let config_path = beside("tokenizer_config.json");
        let config = optional_json(&config_path)?;
        foreign::refuse_config(&config_path, &config)?;
        let map = optional_json(&beside("special_tokens_map.json"))?;
        let added = optional_json(&beside("added_tokens.json"))?;
        let model = optional_json(&beside("config.json"))?;
        let mut completed = config.clone();
        for (name, token) in classes::defaults(&tokenizer, &config, &model) {
            completed.entry(*name).or_insert_with(|| (*token).into());
        }
        let declared = tokens::Declared::new(&completed, &map, &added);
        tokens::complete(&mut tokenizer, &declared);
        classes::rebuild(&mut tokenizer, &config, &model);
        let named_tokens = declared.named().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        let templates = templates::read(&file, &config)?;
        let renders_itself = classes::renders_itself(&model);
        Ok(Folder { path: file, tokenizer, named_tokens, templates, renders_itself })
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
