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
    param: Option<String>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, message: message.into(), kind, param: None }
    }

    /// The body is JSON, and what it asks for cannot be done.
    pub(super) fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "BadRequestError", message)
    }

    /// As [`ApiError::bad_request`], because of one parameter; `value` is shown unless it is long or private.
    pub(super) fn parameter(name: &str, value: Option<u64>, message: &str) -> ApiError {
        let value = value.map(|value| format!(", value={value}")).unwrap_or_default();
        let error = ApiError::bad_request(format!("{message} (parameter={name}{value})"));
        ApiError { param: Some(name.to_owned()), ..error }
    }

    /// The body, or the field at `place` in it, is missing or of the wrong type.
    pub(super) fn invalid(kind: &str, place: &str, problem: impl std::fmt::Display) -> ApiError {
        let place = if place.is_empty() { "body".to_owned() } else { format!("body.{place}") };
        let message =
            format!("1 validation error:\n  {{'type': '{kind}', 'loc': '{place}', 'msg': '{problem}'}}");
        let error = ApiError::new(StatusCode::BAD_REQUEST, "Bad Request", message);
        ApiError { param: Some(place), ..error }
    }

    /// A field that must be there is not.
    pub(super) fn missing(name: &str) -> ApiError {
        ApiError::invalid("missing", name, "Field required")
    }

    /// The body is no JSON object.
    pub(super) fn bad_json(error: &serde_json::Error) -> ApiError {
        if error.is_data() {
            return ApiError::invalid("model_attributes_type", "", "Input should be a valid dictionary");
        }
        ApiError::invalid("json_invalid", &error.column().to_string(), "JSON decode error")
    }

    pub(super) fn unknown_model(name: &str) -> ApiError {
        let message = format!("The model `{name}` does not exist.");
        let error = ApiError::new(StatusCode::NOT_FOUND, "NotFoundError", message);
        ApiError { param: Some("model".to_owned()), ..error }
    }

    /// No output token was asked for, or the window has no room for one.
    pub(super) fn no_output(max_tokens: i64) -> ApiError {
        let message = format!("max_tokens must be at least 1, got {max_tokens}.");
        let error = ApiError::bad_request(format!("{message} (parameter=max_tokens, value={max_tokens})"));
        ApiError { param: Some("max_tokens".to_owned()), ..error }
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
                if tokens == max_model_len as usize {
                    return ApiError::no_output(0);
                }
                let message = format!(
                    "This model's maximum context length is {max_model_len} tokens. However, your prompt \
                     contains {tokens} input tokens, which exceeds this limit even without any output tokens. \
                     Please reduce the length of the input prompt."
                );
                ApiError::parameter("input_tokens", Some(tokens as u64), &message)
            }
            Refusal::Submit(error) => ApiError::bad_request(error.to_string()),
        }
    }
}
