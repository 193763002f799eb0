//! What is answered here and not forwarded: metrics, health, explanations, the list of models.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

/// A request for something other than a completion.
#[derive(Clone, Debug)]
pub struct ControlRequest {
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
    /// What follows the question mark; empty where there is none.
    pub query: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// The answer to it.
#[derive(Clone, Debug)]
pub struct ControlReply {
    /// Its status.
    pub status: StatusCode,
    /// Its `content-type`; left out where it is no header value.
    pub content_type: String,
    /// Its other headers, such as `allow`.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Whoever answers requests that are not forwarded.
///
/// Every path outside `/v1/` comes here, and `GET /v1/models`.
pub trait Control: Send + Sync + 'static {
    /// Answers `request`. Called on a thread that may block; a few calls run at once.
    fn handle(&self, request: ControlRequest) -> ControlReply;
}
