//! Where the chat templates of a folder are.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{optional_json, read as read_file};
use crate::LoadError;

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
        Template::named(Template::DEFAULT, path)
    }

    /// The name of a template that has no other.
    pub(crate) const DEFAULT: &str = "default";

    /// The name of the template for requests with tools, where it is another.
    pub(crate) const TOOL_USE: &str = "tool_use";

    fn named(name: &str, path: &Path) -> Result<Template, LoadError> {
        Ok(Template { name: name.to_owned(), source: read_file(path)?, path: path.to_owned() })
    }
}

/// The templates beside `tokenizer`, the folder's `tokenizer.json`, whose configuration is `config`.
///
/// Files of their own come before the configuration. `chat_template.json` is a processor's, which is asked
/// only for requests without tools.
pub(super) fn read(tokenizer: &Path, config: &Map<String, Value>) -> Result<Vec<Template>, LoadError> {
    let beside = |name: &str| tokenizer.with_file_name(name);
    let mut templates = files(&beside("chat_template.jinja"), &beside("additional_chat_templates"))?;
    if templates.is_empty() {
        templates = configured(config.get("chat_template"), &beside("tokenizer_config.json"));
    }
    let path = beside("chat_template.json");
    if let Some(Value::String(source)) = optional_json(&path)?.remove("chat_template") {
        let tools = position(&templates, Template::TOOL_USE).or(position(&templates, Template::DEFAULT));
        let tools =
            tools.map(|at| Template { name: Template::TOOL_USE.to_owned(), ..templates.swap_remove(at) });
        let plain = Template { name: Template::DEFAULT.to_owned(), source, path };
        return Ok(std::iter::once(plain).chain(tools).collect());
    }
    Ok(templates)
}

fn position(templates: &[Template], name: &str) -> Option<usize> {
    templates.iter().position(|template| template.name == name)
}

fn files(default: &Path, folder: &Path) -> Result<Vec<Template>, LoadError> {
    let mut templates = Vec::new();
    if default.exists() {
        templates.push(Template::read(default)?);
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "jinja") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            templates.push(Template::named(&name, &path)?);
        }
    }
    Ok(templates)
}

fn configured(template: Option<&Value>, path: &Path) -> Vec<Template> {
    let of = |name: &str, source: &str| Template {
        name: name.to_owned(),
        source: source.to_owned(),
        path: path.to_owned(),
    };
    let named = |entry: &Value| Some(of(entry.get("name")?.as_str()?, entry.get("template")?.as_str()?));
    match template {
        Some(Value::String(source)) => vec![of(Template::DEFAULT, source)],
        Some(Value::Array(entries)) => entries.iter().filter_map(named).collect(),
        Some(Value::Object(entries)) => {
            entries.iter().filter_map(|(name, source)| Some(of(name, source.as_str()?))).collect()
        }
        _ => Vec::new(),
    }
}
