//! Errors in vLLM's shape.

use hyper::StatusCode;
use serde_json::json;

use super::driver::Refusal;
use crate::engine::SubmitError;

/// An error a client gets: `{"error": {"message", "type", "param", "code"}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    message: String,
    kind: &'static str,
    param: Option<&'static str>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, message: message.into(), kind, param: None }
    }

    fn about(mut self, param: &'static str) -> ApiError {
        self.param = Some(param);
        self
    }

    /// The body is JSON, and what it asks for cannot be done.
    pub(super) fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "BadRequestError", message)
    }

    /// A field is missing or of the wrong type.
    pub(super) fn field(name: &'static str, problem: impl std::fmt::Display) -> ApiError {
        let message = format!("1 validation error:\n  ('body', '{name}'): {problem}");
        ApiError::new(StatusCode::BAD_REQUEST, "Bad Request", message).about(name)
    }

    /// The body is not a JSON object.
    pub(super) fn bad_json(error: &serde_json::Error) -> ApiError {
        let message = format!("1 validation error:\n  ('body', {}): JSON decode error", error.column());
        ApiError::new(StatusCode::BAD_REQUEST, "Bad Request", message)
    }

    pub(super) fn unknown_model(name: &str) -> ApiError {
        let message = format!("The model `{name}` does not exist.");
        ApiError::new(StatusCode::NOT_FOUND, "NotFoundError", message).about("model")
    }

    pub(super) fn body_too_long(limit: usize) -> ApiError {
        let message = format!("The request body is longer than {limit} bytes.");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "BadRequestError", message)
    }

    /// The engine stopped before the reply was complete.
    pub(super) fn stopped() -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", "The engine has stopped.")
    }

    pub(super) fn body(&self) -> String {
        json!({"error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.status.as_u16(),
        }})
        .to_string()
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> ApiError {
        match refusal {
            Refusal::QueueFull => ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "ServiceUnavailableError",
                "The request queue is full.",
            ),
            Refusal::Submit(SubmitError::PromptTooLong { tokens, max_model_len }) => {
                ApiError::bad_request(format!(
                    "This model's maximum context length is {max_model_len} tokens. However, your prompt contains \
                     {tokens} input tokens, which exceeds this limit even without any output tokens. Please reduce \
                     the length of the input prompt."
                ))
                .about("input_tokens")
            }
            Refusal::Submit(error) => ApiError::bad_request(error.to_string()),
        }
    }
}
