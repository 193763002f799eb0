//! Request bodies as prompts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use warmroute_prompt::{
    Body, ContentFormat, Endpoint, LoadError, LoadOptions, Mismatch, Prompter, Refused, Trust, Verdict,
};
use warmroute_sim::http::Tokenize;

use crate::errors;
use crate::stats::fields;

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
    #[pyo3(signature = (
        tokenizer = None, *, models = None, chat_template = None, chat_template_content_format = "auto",
        check_every = 0, prompt_cache_bytes = None
    ))]
    fn new(
        py: Python<'_>,
        tokenizer: Option<&str>,
        models: Option<Vec<(String, PathBuf)>>,
        chat_template: Option<PathBuf>,
        chat_template_content_format: &str,
        check_every: u32,
        prompt_cache_bytes: Option<usize>,
    ) -> PyResult<PyPrompter> {
        let content_format = content_format(py, chat_template_content_format)?;
        let options = LoadOptions { chat_template, content_format, prompt_cache_bytes };
        let models = models.unwrap_or_default();
        let load = || Prompter::load_all(tokenizer.map(Path::new), &models, &options);
        let prompter = py.detach(load).map_err(|error| {
            // A folder of one model may stand in that of the others.
            let mut given = models.iter().map(|(_, path)| path.as_path()).chain(tokenizer.map(Path::new));
            let wrong = given.find(|given| error.path().starts_with(given)).unwrap_or(error.path());
            load_error(py, &wrong.to_string_lossy(), &options, &error)
        })?;
        Ok(PyPrompter { prompter: Arc::new(prompter.with_checks(check_every)?) })
    }

    /// What the caches of seen prompts did.
    fn cache_stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.prompter.cache_stats();
        let counts = PyDict::new(py);
        for (name, count) in stats.counts() {
            counts.set_item(name, count)?;
        }
        Ok(counts)
    }

    #[getter]
    fn has_tokenizer(&self) -> bool {
        self.prompter.has_tokenizer()
    }

    #[getter]
    fn has_chat_template(&self) -> bool {
        self.prompter.exact().is_some_and(|exact| exact.has_chat_template())
    }

    /// Which tokenizer a model has.
    fn tokenizer_of(&self, model: &str) -> Option<String> {
        self.prompter.exact_for(Some(model))?;
        Some(if self.prompter.is_named(model) { model.to_owned() } else { String::new() })
    }

    /// Why a model's prompts are encoded by the slow tokenizer, where they are.
    fn fallback_reason(&self, model: &str) -> Option<&str> {
        self.prompter.exact_for(Some(model))?.fallback_reason()
    }

    /// What vLLM knows a model by whose chats it renders by its own code.
    fn renders_itself(&self, model: &str) -> Option<&'static str> {
        self.prompter.exact_for(Some(model))?.renders_itself()
    }

    fn special_tokens(&self, model: &str) -> Vec<String> {
        let exact = self.prompter.exact_for(Some(model));
        exact.into_iter().flat_map(|exact| exact.special_tokens().map(str::to_owned)).collect()
    }

    /// The ids of a body's prompt, whatever is trusted, or why there are none.
    fn local_ids(
        &self,
        py: Python<'_>,
        endpoint: &str,
        body: &[u8],
    ) -> PyResult<(Option<Vec<u32>>, Option<&'static str>)> {
        let body = parse(py, endpoint, body)?;
        let exact = self.prompter.exact_for(body.model()).ok_or(Refused::NoTokenizer);
        Ok(match py.detach(|| exact.and_then(|exact| exact.ids(&body))) {
            Ok(ids) => (Some(ids), None),
            Err(refused) => (None, Some(refused.as_str())),
        })
    }

    fn set_trust(&self, py: Python<'_>, model: &str, text: &str, chat: &str) -> PyResult<()> {
        let trust = Trust { text: verdict(py, text)?, chat: verdict(py, chat)? };
        self.prompter.set_trust(model, trust);
        Ok(())
    }

    fn forget(&self, model: &str) {
        self.prompter.forget(model);
    }

    /// Why tokens of a model's texts and chats cannot be made here, whatever the request.
    fn standing(&self, model: &str) -> (Option<&'static str>, Option<&'static str>) {
        let (text, chat) = self.prompter.standing(Some(model));
        (text.map(Refused::as_str), chat.map(Refused::as_str))
    }

    fn check_stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.prompter.check_stats();
        let dict = fields!(py, stats; checks, mismatches, skipped, failed);
        let first = stats.first.iter().map(|first| fields_of(py, first));
        dict.set_item("first", first.collect::<PyResult<Vec<_>>>()?)?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        format!("Prompter(has_tokenizer={})", if self.has_tokenizer() { "True" } else { "False" })
    }
}

fn fields_of<'py>(py: Python<'py>, mismatch: &Mismatch) -> PyResult<Bound<'py, PyDict>> {
    let dict = fields!(py, mismatch; position, used, expected);
    dict.set_item("model", &*mismatch.model)?;
    Ok(dict)
}

/// Loads a tokenizer; takes up to a few seconds, so others may use the GIL meanwhile.
pub(crate) fn load(py: Python<'_>, path: &str, options: &LoadOptions) -> PyResult<Prompter> {
    py.detach(|| Prompter::load(Path::new(path), options))
        .map_err(|error| load_error(py, path, options, &error))
}

/// `given` is the tokenizer as the caller named it.
pub(crate) fn load_error(py: Python<'_>, given: &str, options: &LoadOptions, error: &LoadError) -> PyErr {
    if let Some(template) = options.chat_template.as_deref().filter(|template| *template == error.path()) {
        let allowed = format!("a file with a chat template that Jinja can read ({error})");
        return errors::raise(py, "ConfigError", ("chat_template", template.to_string_lossy(), allowed));
    }
    let allowed = format!("a Hugging Face folder or a tokenizer.json ({error})");
    errors::raise(py, "ConfigError", ("tokenizer", given, allowed))
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

/// `body` as a request to `endpoint`, a path.
pub(crate) fn parse<'a>(py: Python<'_>, endpoint: &str, body: &'a [u8]) -> PyResult<Body<'a>> {
    let path = Endpoint::of_path(endpoint).ok_or_else(|| {
        let known = "/v1/chat/completions, /v1/completions, /v1/responses or /v1/messages";
        errors::invalid(py, format!("endpoint {endpoint:?} has no prompt: use {known}"))
    })?;
    Body::parse(path, body).map_err(|error| errors::invalid(py, error.to_string()))
}

fn verdict(py: Python<'_>, name: &str) -> PyResult<Verdict> {
    let found = Verdict::ALL.into_iter().find(|verdict| verdict.as_str() == name);
    found.ok_or_else(|| {
        errors::invalid(py, format!("{name:?} is no verdict: use unverified, verified or refused"))
    })
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
