//! What a request gets: a worker's reply, the control side's, or a refusal.

use std::fmt;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use warmroute_prompt::Endpoint;

use crate::body::{self, BodyFault};
use crate::control::{ControlReply, ControlRequest};
use crate::exchange::Exchange;
use crate::forward::{Ask, forward};
use crate::headers;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::shard::Shard;
use crate::socket::Client;
use crate::stats::{Ending, Kind, Phase, RefusalKind};

/// The longest body of a request that is not forwarded: a prompt to explain, of several hundred thousand tokens.
const CONTROL_BODY_BYTES: u64 = 4 << 20;

/// A request whose client is gone, or sent what is not HTTP: there is nobody to answer.
#[derive(Debug)]
pub(crate) struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client left while it sent its request")
    }
}

impl std::error::Error for Gone {}

/// Answers one request.
pub(crate) async fn serve(
    shard: Rc<Shard>,
    client: Rc<Client>,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Gone> {
    let (mut head, incoming) = request.into_parts();
    let path = head.uri.path();
    let endpoint = Endpoint::of_path(path);
    let control = !path.starts_with("/v1/") || (head.method == Method::GET && path == "/v1/models");
    let kind = if control { Kind::Control } else { endpoint.into() };
    let exchange = Exchange::new(Rc::clone(&shard), client, kind);
    let id = request_id(&shard, &head.headers);
    let mut limit = shard.config().body_limit_bytes;
    if control {
        limit = limit.min(CONTROL_BODY_BYTES);
    }
    let (body, held) = match body::read(incoming, limit, &shard.room).await {
        Ok(read) => read,
        Err(BodyFault::Cut) => return Err(Gone),
        Err(BodyFault::Malformed) => {
            let refusal =
                Refusal::new(RefusalKind::InvalidRequest, "the chunks of the request body are malformed");
            return Ok(refuse(&refusal, endpoint, &id, exchange));
        }
        Err(BodyFault::TooLarge) => {
            exchange.leave_unread();
            return Ok(refuse(&Refusal::body_too_large(limit), endpoint, &id, exchange));
        }
        Err(BodyFault::NoRoom) => {
            exchange.leave_unread();
            let refusal = Refusal::busy("too many request bodies wait for their workers");
            return Ok(refuse(&refusal, endpoint, &id, exchange));
        }
    };
    shard.stats.bytes_received.add(body.len() as u64);
    if head.method == Method::CONNECT {
        let refusal = Refusal::new(RefusalKind::InvalidRequest, "CONNECT is not supported here");
        return Ok(refuse(&refusal, endpoint, &id, exchange));
    }
    if control {
        return Ok(self::control(&shard, head, body, &id, exchange).await);
    }
    headers::remove_hop_by_hop(&mut head.headers);
    head.headers.remove(header::EXPECT);
    // A completion is a POST; what else such a path gets has no prompt.
    let endpoint = endpoint.filter(|_| head.method == Method::POST);
    match forward(Ask { head, body, held, endpoint, id: id.clone() }, exchange).await {
        Ok(reply) => Ok(reply),
        Err((refusal, exchange)) => Ok(refuse(&refusal, endpoint, &id, exchange)),
    }
}

/// The client's own name for the request, or a new one.
fn request_id(shard: &Shard, headers: &HeaderMap) -> HeaderValue {
    if let Some(id) = headers.get(headers::REQUEST_ID) {
        return id.clone();
    }
    let mut id = String::with_capacity(32);
    // Writing to a string cannot fail.
    let _ = write!(id, "{:016x}{:016x}", shard.random(), shard.random());
    headers::value(&id)
}

fn refuse(
    refusal: &Refusal,
    endpoint: Option<Endpoint>,
    id: &HeaderValue,
    mut exchange: Exchange,
) -> Response<Reply> {
    let shard = Rc::clone(&exchange.shard);
    shard.stats.refusals[refusal.kind as usize].one();
    exchange.enter(Phase::Stream);
    exchange.end(refusal.status().into());
    own(refusal.status(), refusal.headers(shard.random()), refusal.body(endpoint), id, &shard)
}

fn own(
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    id: &HeaderValue,
    shard: &Shard,
) -> Response<Reply> {
    shard.stats.bytes_sent.add(body.len() as u64);
    let mut response = Response::new(Reply::Own(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().insert(headers::REQUEST_ID, id.clone());
    response
}

async fn control(
    shard: &Shard,
    head: Parts,
    body: Bytes,
    id: &HeaderValue,
    mut exchange: Exchange,
) -> Response<Reply> {
    exchange.enter(Phase::Head);
    // Held by those that wait and by those that run, until they end: a client that leaves does not end a call.
    let place = Arc::clone(&shard.control_open);
    if Arc::strong_count(&place) > shard.config().control_queue as usize + 1 {
        return refuse(&Refusal::busy("too many control requests wait"), None, id, exchange);
    }
    let Ok(turn) = Arc::clone(&shard.controllers).acquire_owned().await else {
        return refuse(&Refusal::busy("the router is stopping"), None, id, exchange);
    };
    let control = Arc::clone(&shard.shared.control);
    let request = ControlRequest {
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        method: head.method,
        headers: head.headers,
        body,
    };
    let call = move || {
        let _held = (place, turn);
        control.handle(request)
    };
    let result = tokio::task::spawn_blocking(call).await;
    let ControlReply { status, content_type, mut headers, body } = result.unwrap_or_else(|_| ControlReply {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        content_type: "text/plain".to_owned(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"the control side failed\n"),
    });
    exchange.end(Ending::from(status));
    if let Ok(content_type) = content_type.parse() {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    own(status, headers, body, id, shard)
}
