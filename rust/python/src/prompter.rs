//! Request bodies as prompts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use warmroute_prompt::{Body, ContentFormat, Endpoint, LoadError, LoadOptions, Prompter};
use warmroute_sim::http::Tokenize;

use crate::errors;

/// Turns bodies into prompts, with a model's tokenizer and chat template or without.
#[pyclass(frozen, module = "warmroute._core", name = "Prompter")]
pub(crate) struct PyPrompter {
    prompter: Arc<Prompter>,
}

impl PyPrompter {
    pub(crate) fn shared(&self) -> &Arc<Prompter> {
        &self.prompter
    }
}

#[pymethods]
impl PyPrompter {
    #[new]
    #[pyo3(signature = (tokenizer = None, *, chat_template = None, chat_template_content_format = "auto"))]
    fn new(
        py: Python<'_>,
        tokenizer: Option<&str>,
        chat_template: Option<PathBuf>,
        chat_template_content_format: &str,
    ) -> PyResult<PyPrompter> {
        let content_format = content_format(py, chat_template_content_format)?;
        let prompter = match tokenizer {
            None => Prompter::without_tokenizer(),
            Some(path) => {
                load(py, path, &LoadOptions { chat_template, content_format, ..LoadOptions::default() })?
            }
        };
        Ok(PyPrompter { prompter: Arc::new(prompter) })
    }

    #[getter]
    fn has_tokenizer(&self) -> bool {
        self.prompter.has_tokenizer()
    }

    #[getter]
    fn has_chat_template(&self) -> bool {
        self.prompter.exact().is_some_and(|exact| exact.has_chat_template())
    }

    fn __repr__(&self) -> String {
        format!("Prompter(has_tokenizer={})", if self.has_tokenizer() { "True" } else { "False" })
    }
}

/// Loads a tokenizer; takes up to a few seconds, so others may use the GIL meanwhile.
pub(crate) fn load(py: Python<'_>, path: &str, options: &LoadOptions) -> PyResult<Prompter> {
    let loaded = py.detach(|| Prompter::load(Path::new(path), options));
    loaded.map_err(|error| load_error(py, path, &error))
}

pub(crate) fn load_error(py: Python<'_>, path: &str, error: &LoadError) -> PyErr {
    let allowed = format!("a Hugging Face folder or a tokenizer.json ({error})");
    errors::raise(py, "ConfigError", ("tokenizer", path, allowed))
}

/// `auto` leaves it to the template.
pub(crate) fn content_format(py: Python<'_>, name: &str) -> PyResult<Option<ContentFormat>> {
    match name {
        "auto" => Ok(None),
        "string" => Ok(Some(ContentFormat::String)),
        "openai" => Ok(Some(ContentFormat::OpenAi)),
        other => {
            let allowed = "one of auto, string, openai";
            Err(errors::raise(py, "ConfigError", ("chat_template_content_format", other, allowed)))
        }
    }
}

/// A prompter as the tokenizer of an engine model.
pub(crate) struct Tokenizer(pub(crate) Prompter);

impl Tokenize for Tokenizer {
    fn chat(&self, body: &[u8]) -> Result<Vec<u32>, String> {
        let exact = self.0.exact().ok_or("there is no tokenizer")?;
        let body = Body::parse(Endpoint::ChatCompletions, body).map_err(|error| error.to_string())?;
        exact.ids(&body).map_err(|error| error.to_string())
    }

    fn text(&self, text: &str) -> Result<Vec<u32>, String> {
        let exact = self.0.exact().ok_or("there is no tokenizer")?;
        exact.encode(text, true).map_err(|error| error.to_string())
    }
}
