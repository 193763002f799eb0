//! What each path answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::config::SimConfig;
use super::driver::{Driver, Ticket, Token, unix_seconds};
use super::error::ApiError;
use super::openai::{Call, Fields, Kind};
use super::reply::Reply;
use super::stream::{ReplyBody, TokenStream};
use super::vocabulary::Vocabulary;
use super::{Tokenize, metrics};
use crate::engine::{Lora, Space, Submission};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The vLLM whose answers these are.
const VLLM_VERSION: &str = "0.32.0";

/// One server's parts.
pub(super) struct Api {
    pub(super) config: SimConfig,
    pub(super) driver: Arc<Driver>,
    pub(super) tokenize: Arc<dyn Tokenize>,
    pub(super) vocabulary: Arc<Vocabulary>,
    started: u64,
    calls: AtomicU64,
}

type Answer = Result<Response<ReplyBody>, ApiError>;

impl Api {
    pub(super) fn new(
        config: SimConfig,
        driver: Arc<Driver>,
        tokenize: Arc<dyn Tokenize>,
        vocabulary: Vocabulary,
    ) -> Api {
        let started = unix_seconds() as u64;
        let (vocabulary, calls) = (Arc::new(vocabulary), AtomicU64::new(0));
        Api { config, driver, tokenize, vocabulary, started, calls }
    }

    /// Answers one request; dropping the future or the body it gave aborts what the request asked for.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<ReplyBody> {
        let given = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let request_id = given.unwrap_or_else(|| self.fresh_id());
        let answer = self.route(request, &request_id).await;
        let mut response =
            answer.unwrap_or_else(|error| respond(error.status, "application/json", error.body()));
        if let Ok(id) = HeaderValue::from_str(&request_id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response
    }

    async fn route(&self, request: Request<Incoming>, request_id: &str) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let allowed = match path.as_str() {
            "/v1/chat/completions" | "/v1/completions" | "/tokenize" | "/reset_prefix_cache" => Method::POST,
            "/health" | "/version" | "/load" | "/v1/models" | "/kv_event_sources" | "/metrics" => Method::GET,
            _ => return Ok(respond_json(StatusCode::NOT_FOUND, &json!({"detail": "Not Found"}))),
        };
        if method != allowed {
            let detail = json!({"detail": "Method Not Allowed"});
            let mut response = respond_json(StatusCode::METHOD_NOT_ALLOWED, &detail);
            if let Ok(value) = HeaderValue::from_str(allowed.as_str()) {
                response.headers_mut().insert(ALLOW, value);
            }
            return Ok(response);
        }
        match path.as_str() {
            "/v1/chat/completions" => self.generate(Kind::Chat, request, request_id).await,
            "/v1/completions" => self.generate(Kind::Completion, request, request_id).await,
            "/tokenize" => self.tokens(request).await,
            "/reset_prefix_cache" => Ok(self.reset(request.uri().query().unwrap_or_default())),
            "/health" => Ok(respond(StatusCode::OK, "text/plain", String::new())),
            "/version" => Ok(ok(&json!({"version": VLLM_VERSION}))),
            "/load" => Ok(ok(&json!({"server_load": self.driver.snapshot().open_calls}))),
            "/v1/models" => Ok(ok(&self.models())),
            "/kv_event_sources" => Ok(ok(&self.kv_event_sources())),
            _ => Ok(self.metrics()),
        }
    }

    async fn body(&self, request: Request<Incoming>) -> Result<Bytes, ApiError> {
        let limit = self.config.max_body_bytes;
        match Limited::new(request.into_body(), limit).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(ApiError::body_too_long(limit)),
            Err(error) => Err(ApiError::bad_request(error.to_string())),
        }
    }

    async fn generate(&self, kind: Kind, request: Request<Incoming>, request_id: &str) -> Answer {
        let body = self.body(request).await?;
        let mut call = Call::parse(kind, &body, &*self.tokenize, |model| self.knows(model))?;
        drop(body);
        let model = call.model.take().unwrap_or_else(|| self.config.model.clone());
        let prompts = call.prompts.iter().map(Vec::len);
        let mut reply =
            Reply::new(kind, &model, request_id, &self.vocabulary, self.config.engine.block_size, prompts);
        reply.include_usage = call.include_usage;
        reply.token_ids = call.token_ids;
        let (stream, choices) = (call.stream, call.prompts.len());
        let (ticket, tokens) = self.driver.submit(self.submissions(call, &model))?;
        if stream {
            let stream = TokenStream { reply, tokens, ticket: Some(ticket) };
            return Ok(response(
                StatusCode::OK,
                "text/event-stream; charset=utf-8",
                ReplyBody::Stream(Box::new(stream)),
            ));
        }
        collect(reply, ticket, tokens, choices).await
    }

    fn submissions(&self, call: Call, model: &str) -> Vec<Submission> {
        let (output_tokens, finish) = call.output(self.config.output_tokens);
        let adapters = (1..).zip(&self.config.loras);
        let lora =
            adapters.filter(|(_, name)| *name == model).map(|(id, name)| Lora { id, name: name.clone() });
        let space = Arc::new(Space { salt: call.salt, lora: { lora }.next() });
        let submission = |prompt: Vec<u32>| Submission {
            prompt: prompt.into(),
            output_tokens,
            finish,
            space: Arc::clone(&space),
        };
        call.prompts.into_iter().map(submission).collect()
    }

    fn knows(&self, model: &str) -> bool {
        model == self.config.model || self.config.loras.iter().any(|lora| lora == model)
    }

    /// A name for a request that brought none.
    fn fresh_id(&self) -> String {
        format!("{:x}-{:x}", self.started, self.calls.fetch_add(1, Ordering::Relaxed))
    }

    async fn tokens(&self, request: Request<Incoming>) -> Answer {
        let body = self.body(request).await?;
        let fields = Fields::parse(&body)?;
        let tokens = match fields.raw("prompt") {
            Some(raw) if fields.raw("messages").is_none() => {
                let text: String = serde_json::from_str(raw)
                    .map_err(|error| ApiError::invalid("type_error", "prompt", error))?;
                self.tokenize.text(&text)
            }
            _ => self.tokenize.chat(&body),
        };
        let tokens = tokens.map_err(ApiError::bad_request)?;
        let max_model_len = self.config.engine.max_model_len;
        Ok(ok(&json!({
            "count": tokens.len(), "max_model_len": max_model_len, "tokens": tokens, "token_strs": null,
        })))
    }

    fn reset(&self, query: &str) -> Response<ReplyBody> {
        let force = query.split('&').any(|pair| pair == "reset_running_requests=true");
        ok(&json!({"success": self.driver.reset_prefix_cache(force)}))
    }

    fn models(&self) -> Value {
        let model = |id: &str, parent: Option<&str>| {
            json!({
                "id": id, "object": "model", "created": self.started, "owned_by": "vllm", "root": id,
                "parent": parent, "max_model_len": self.config.engine.max_model_len, "permission": [],
            })
        };
        let base = self.config.model.as_str();
        let loras = self.config.loras.iter().map(|lora| model(lora, Some(base)));
        json!({"object": "list", "data": std::iter::once(model(base, None)).chain(loras).collect::<Vec<_>>()})
    }

    fn kv_event_sources(&self) -> Value {
        let Some(source) = &self.config.kv_events else { return json!({}) };
        json!({"0": {
            "enable_kv_cache_events": true, "publisher": "zmq", "endpoint": source.endpoint,
            "replay_endpoint": source.replay_endpoint, "buffer_steps": source.buffer_steps,
            "hwm": 100_000, "max_queue_size": 100_000, "topic": source.topic,
        }})
    }

    fn metrics(&self) -> Response<ReplyBody> {
        let page = metrics::page(&self.driver.snapshot(), &self.config.engine, &self.config.model);
        respond(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page)
    }
}

/// Waits for every token. The ticket is held until then: a client that leaves drops this future, and it.
async fn collect(
    mut reply: Reply,
    ticket: Ticket,
    mut tokens: tokio::sync::mpsc::UnboundedReceiver<Token>,
    choices: usize,
) -> Answer {
    let mut collected = vec![Vec::new(); choices];
    loop {
        let token = tokens.recv().await.ok_or_else(ApiError::stopped)?;
        collected[token.choice].push(token);
        if reply.count(&token) {
            break;
        }
    }
    drop(ticket);
    Ok(respond(StatusCode::OK, "application/json", reply.whole(&collected)))
}

fn ok(value: &Value) -> Response<ReplyBody> {
    respond_json(StatusCode::OK, value)
}

fn respond_json(status: StatusCode, value: &Value) -> Response<ReplyBody> {
    respond(status, "application/json", value.to_string())
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response<ReplyBody> {
    response(status, content_type, ReplyBody::Whole((!body.is_empty()).then(|| body.into())))
}

fn response(status: StatusCode, content_type: &'static str, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
