//! A model's tokenizer and chat template for the library.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyDict, PyString};
use warmroute_prompt::{Body, Data, Endpoint, Exact, LoadOptions, PromptError, Prompter, Refused};

use crate::errors;
use crate::prompter::{content_format, load_error};
use crate::stats::fields;

/// The worker's own tokens of a text or a request.
#[pyclass(frozen, module = "warmroute", name = "Tokenizer")]
pub(crate) struct PyTokenizer {
    exact: Arc<Exact>,
    /// Reads a body as the HTTP router does.
    prompter: Prompter,
    name: String,
}

#[pymethods]
impl PyTokenizer {
    #[new]
    #[pyo3(signature = (
        path_or_hub_id, chat_template = None, chat_template_content_format = "auto", *,
        prompt_cache_bytes = None
    ))]
    fn new(
        py: Python<'_>,
        path_or_hub_id: PathBuf,
        chat_template: Option<PathBuf>,
        chat_template_content_format: &str,
        prompt_cache_bytes: Option<usize>,
    ) -> PyResult<PyTokenizer> {
        let content_format = content_format(py, chat_template_content_format)?;
        let options = LoadOptions { chat_template, content_format, prompt_cache_bytes };
        let name = path_or_hub_id.to_string_lossy().into_owned();
        let resolve = py.import("warmroute.config")?.getattr("resolve_tokenizer")?;
        let path: PathBuf = resolve.call1((&name,))?.extract()?;
        let exact = py
            .detach(|| Exact::load(&path, &options))
            .map_err(|error| load_error(py, &name, &options, &error))?;
        let exact = Arc::new(exact);
        let prompter = Prompter::new(Some(Arc::clone(&exact)), Default::default());
        Ok(PyTokenizer { exact, prompter, name })
    }

    #[getter]
    fn has_chat_template(&self) -> bool {
        self.exact.has_chat_template()
    }

    #[getter]
    fn fallback_reason(&self) -> Option<&str> {
        self.exact.fallback_reason()
    }

    #[pyo3(signature = (text, add_special_tokens = false))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let text = utf8(text)?;
        let ids = py.detach(|| self.exact.encode(&text, add_special_tokens));
        let ids = ids.map_err(|refused| refusal(py, refused))?;
        PyBytes::new_with(py, ids.len() * 4, |packed| {
            for (id, place) in ids.iter().zip(packed.chunks_exact_mut(4)) {
                place.copy_from_slice(&id.to_le_bytes());
            }
            Ok(())
        })
    }

    #[pyo3(signature = (openai_body, endpoint = "chat"))]
    fn render(&self, py: Python<'_>, openai_body: RequestBody, endpoint: &str) -> PyResult<String> {
        let endpoint = named_endpoint(py, endpoint)?;
        let text = py.detach(|| -> Result<String, Fault> {
            Ok(self.exact.text(&Body::parse(endpoint, openai_body.as_ref())?)?)
        });
        text.map_err(|fault| fault.raise(py))
    }

    #[pyo3(signature = (openai_body, endpoint = "chat"))]
    fn tokens_for<'py>(
        &self,
        py: Python<'py>,
        openai_body: RequestBody,
        endpoint: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let endpoint = named_endpoint(py, endpoint)?;
        let packed = py.detach(|| -> Result<Vec<u8>, Fault> {
            let body = Body::parse(endpoint, openai_body.as_ref())?;
            let prompt = self.prompter.read(&body)?;
            match prompt.data() {
                Data::Ids(packed) => Ok(packed.clone()),
                Data::Text(_) => Err(Fault::Refused(prompt.refused().unwrap_or(Refused::NoTokenizer))),
            }
        });
        Ok(PyBytes::new(py, &packed.map_err(|fault| fault.raise(py))?))
    }

    fn cache_stats<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(stats) = self.exact.cache_stats() else { return Ok(None) };
        Ok(Some(
            fields!(py, stats; known_raw_bytes, read_raw_bytes, known_text_bytes, encoded_text_bytes, bytes, evicted),
        ))
    }

    fn __repr__(&self) -> String {
        format!("Tokenizer({:?})", self.name)
    }
}

/// A request body as JSON text, or as what `json.dumps` takes.
pub(crate) enum RequestBody {
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
    Copy(Vec<u8>),
}

impl<'py> FromPyObject<'_, 'py> for RequestBody {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<RequestBody> {
        let py = given.py();
        if let Ok(text) = given.cast::<PyString>() {
            return Ok(RequestBody::Text(utf8(&text)?));
        }
        if let Ok(bytes) = given.extract::<PyBackedBytes>() {
            return Ok(RequestBody::Bytes(bytes));
        }
        if let Ok(buffer) = PyBuffer::<u8>::get(&given) {
            return Ok(RequestBody::Copy(buffer.to_vec(py)?));
        }
        let wrong = |error: PyErr| errors::invalid(py, format!("the body is not JSON: {}", error.value(py)));
        if given.is_instance_of::<PyDict>() {
            let keywords = PyDict::new(py);
            keywords.set_item("allow_nan", false)?;
            let text = py.import("json")?.call_method("dumps", (given,), Some(&keywords)).map_err(wrong)?;
            return Ok(RequestBody::Text(text.extract()?));
        }
        let kind = given.get_type().to_string();
        Err(errors::invalid(py, format!("the body is {kind}: use a dict, or JSON as bytes or str")))
    }
}

impl AsRef<[u8]> for RequestBody {
    fn as_ref(&self) -> &[u8] {
        match self {
            RequestBody::Bytes(bytes) => bytes,
            RequestBody::Text(text) => text.as_bytes(),
            RequestBody::Copy(bytes) => bytes,
        }
    }
}

/// A `str` may hold lone surrogates, which no UTF-8 has.
fn utf8(text: &Bound<'_, PyString>) -> PyResult<PyBackedStr> {
    text.extract().map_err(|_| errors::invalid(text.py(), "the text has lone surrogates".to_owned()))
}

/// Why a body has no tokens.
enum Fault {
    Prompt(PromptError),
    Refused(Refused),
}

impl Fault {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Fault::Prompt(error) => errors::invalid(py, error.to_string()),
            Fault::Refused(refused) => refusal(py, refused),
        }
    }
}

impl From<PromptError> for Fault {
    fn from(error: PromptError) -> Fault {
        Fault::Prompt(error)
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Fault {
        Fault::Refused(refused)
    }
}

fn refusal(py: Python<'_>, refused: Refused) -> PyErr {
    errors::raise(py, "TokensRefused", (refused.to_string(), refused.as_str()))
}

fn named_endpoint(py: Python<'_>, name: &str) -> PyResult<Endpoint> {
    let endpoint = match name {
        "chat" => Some(Endpoint::ChatCompletions),
        "completions" => Some(Endpoint::Completions),
        "responses" => Some(Endpoint::Responses),
        "messages" => Some(Endpoint::Messages),
        path => Endpoint::of_path(path),
    };
    let known = "chat, completions, responses or messages, or a path such as /v1/chat/completions";
    endpoint.ok_or_else(|| errors::invalid(py, format!("endpoint {name:?} has no prompt: use {known}")))
}
