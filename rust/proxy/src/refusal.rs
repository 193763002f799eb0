//! Errors of the proxy's own, in OpenAI's shape.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use warmroute_core::error::RouteError;
use warmroute_prompt::{Endpoint, PromptError};

use crate::headers;
use crate::stats::RefusalKind;

/// OpenAI's clients obey `retry-after` up to a minute; where that is not enough, a client's own tries cannot help.
const WORTH_WAITING: Duration = Duration::from_secs(60);

/// A request that the proxy answers with an error.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) kind: RefusalKind,
    message: String,
    param: Option<&'static str>,
    retry_after: Option<Duration>,
}

impl Refusal {
    pub(crate) fn new(kind: RefusalKind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into(), param: None, retry_after: None }
    }

    pub(crate) fn body_too_large(limit: u64) -> Refusal {
        let message = format!(
            "the request body is longer than {limit} bytes: send a shorter one, or raise body_limit_bytes"
        );
        Refusal::new(RefusalKind::BodyTooLarge, message)
    }

    pub(crate) fn busy(what: &str) -> Refusal {
        let message = format!("{what}: try again");
        Refusal { retry_after: Some(Duration::from_secs(1)), ..Refusal::new(RefusalKind::Busy, message) }
    }

    pub(crate) fn unreachable(worker: &str) -> Refusal {
        let message = format!("worker {worker:?} cannot be reached or closed the connection: try again");
        Refusal::new(RefusalKind::WorkerUnreachable, message)
    }

    pub(crate) fn garbage(worker: &str) -> Refusal {
        let message =
            format!("worker {worker:?} answered with something that is not HTTP/1.1: check its URL");
        Refusal::new(RefusalKind::WorkerGarbage, message)
    }

    pub(crate) fn timeout(worker: &str, after: Duration) -> Refusal {
        let message = format!(
            "worker {worker:?} began no reply within {:.1} s: try again, or raise request_timeout_ms",
            after.as_secs_f64()
        );
        Refusal::new(RefusalKind::WorkerTimeout, message)
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self.kind {
            RefusalKind::InvalidRequest => StatusCode::BAD_REQUEST,
            RefusalKind::BodyTooLarge | RefusalKind::PromptTooLong => StatusCode::PAYLOAD_TOO_LARGE,
            RefusalKind::UnknownModel => StatusCode::NOT_FOUND,
            RefusalKind::Saturated => StatusCode::TOO_MANY_REQUESTS,
            RefusalKind::NoWorker | RefusalKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
            RefusalKind::WorkerUnreachable | RefusalKind::WorkerGarbage => StatusCode::BAD_GATEWAY,
            RefusalKind::WorkerTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Headers that go with it; `random` spreads the retries of many clients.
    pub(crate) fn headers(&self, random: u64) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(after) = self.retry_after {
            // Up to a quarter more, so that those who were refused together do not come back together.
            let seconds = after.as_secs_f64() * (1.0 + (random % 1024) as f64 / 4096.0);
            headers.insert(header::RETRY_AFTER, headers::number(seconds.ceil().max(1.0) as u64));
            if after >= WORTH_WAITING {
                headers.insert(headers::SHOULD_RETRY, HeaderValue::from_static("false"));
            }
        }
        headers
    }

    /// The body, in the shape that clients of `endpoint` know.
    pub(crate) fn body(&self, endpoint: Option<Endpoint>) -> Bytes {
        let mut body = json!({"error": self.error()});
        if endpoint == Some(Endpoint::Messages) {
            body["type"] = Value::from("error");
        }
        Bytes::from(body.to_string())
    }

    fn error(&self) -> Value {
        let (kind, code) = match self.kind {
            RefusalKind::InvalidRequest => ("invalid_request_error", None),
            RefusalKind::BodyTooLarge => ("invalid_request_error", Some("request_too_large")),
            RefusalKind::PromptTooLong => ("invalid_request_error", Some("context_length_exceeded")),
            RefusalKind::UnknownModel => ("invalid_request_error", Some("model_not_found")),
            RefusalKind::Saturated => ("rate_limit_error", Some("saturated")),
            RefusalKind::NoWorker => ("server_error", Some("no_eligible_worker")),
            RefusalKind::Busy => ("server_error", Some("busy")),
            RefusalKind::WorkerUnreachable => ("server_error", Some("worker_unreachable")),
            RefusalKind::WorkerGarbage => ("server_error", Some("worker_reply")),
            RefusalKind::WorkerTimeout => ("server_error", Some("worker_timeout")),
        };
        json!({"message": self.message, "type": kind, "param": self.param, "code": code})
    }
}

/// The event that ends a streamed reply whose worker failed: what it did, as `closed the connection`.
pub(crate) fn stream_event(worker: &str, did: &str, endpoint: Option<Endpoint>) -> Bytes {
    let error = json!({
        "message": format!("worker {worker:?} {did} in the middle of its reply: the reply is not complete, send \
                            the request again"),
        "type": "server_error", "param": null, "code": "stream_interrupted",
    });
    Bytes::from(if endpoint == Some(Endpoint::Messages) {
        format!("event: error\ndata: {}\n\n", json!({"type": "error", "error": error}))
    } else {
        format!("data: {}\n\n", json!({"error": error}))
    })
}

impl From<PromptError> for Refusal {
    fn from(error: PromptError) -> Refusal {
        let param = match &error {
            PromptError::Missing { field, .. } | PromptError::WrongType { field, .. } => Some(*field),
            PromptError::TokenId { .. } => Some("prompt"),
            _ => None,
        };
        Refusal { param, ..Refusal::new(RefusalKind::InvalidRequest, error.to_string()) }
    }
}

impl From<RouteError> for Refusal {
    fn from(error: RouteError) -> Refusal {
        match error {
            RouteError::UnknownModel(_) => Refusal {
                param: Some("model"),
                ..Refusal::new(
                    RefusalKind::UnknownModel,
                    format!("{error}: GET /v1/models lists those that are served"),
                )
            },
            RouteError::PromptTooLong { .. } => {
                Refusal::new(RefusalKind::PromptTooLong, format!("{error}: send a shorter prompt"))
            }
            RouteError::NoEligibleWorker => {
                Refusal::new(RefusalKind::NoWorker, format!("{error}: try again when one is up"))
            }
            RouteError::Saturated { retry_after } => Refusal {
                retry_after: Some(retry_after),
                ..Refusal::new(RefusalKind::Saturated, error.to_string())
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_not_tried_again() {
        let refusal =
            |seconds| Refusal::from(RouteError::Saturated { retry_after: Duration::from_secs(seconds) });
        let headers = refusal(8).headers(1023);
        assert_eq!((&headers["retry-after"], headers.get("x-should-retry")), (&HeaderValue::from(10), None));
        assert_eq!(refusal(60).headers(0)["x-should-retry"], "false");
        assert_eq!(refusal(0).headers(0)["retry-after"], "1");
    }

    #[test]
    fn errors_have_the_shape_of_openai_or_anthropic() {
        let refusal = Refusal::from(PromptError::Missing { field: "messages", allowed: "an array" });
        let body: Value = serde_json::from_slice(&refusal.body(None)).unwrap();
        assert_eq!(body["error"]["type"], "invalid_request_error");
        assert_eq!(body["error"]["param"], "messages");
        assert!(body["error"]["code"].is_null());
        let body: Value = serde_json::from_slice(&refusal.body(Some(Endpoint::Messages))).unwrap();
        assert_eq!(body["type"], "error");
        let event = stream_event("w", "failed", Some(Endpoint::Messages));
        assert!(event.starts_with(b"event: error\ndata: {"));
    }
}
