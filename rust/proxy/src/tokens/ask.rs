//! One question to one worker.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use warmroute_core::fleet::{Worker, WorkerState};
use warmroute_prompt::{Body, Endpoint};

use super::abilities::Way;
use super::{answer, cache::Said};
use crate::headers;
use crate::shard::Shard;
use crate::stats::Asked;
use crate::upstream::{Target, Upstream};

/// The longest reply that is read: the ids of the longest body that is asked for, and what comes with them.
const REPLY_BYTES: usize = 16 << 20;

/// What is asked.
pub(super) struct Question<'a> {
    model: Option<String>,
    render: &'static str,
    body: &'a Bytes,
    tokenize: Option<Bytes>,
    authorization: Option<&'a HeaderValue>,
}

impl<'a> Question<'a> {
    pub(super) fn new(
        endpoint: Endpoint,
        parsed: &Body<'_>,
        head: &'a HeaderMap,
        body: &'a Bytes,
    ) -> Question<'a> {
        Question {
            model: parsed.model().map(str::to_owned),
            render: match endpoint {
                Endpoint::ChatCompletions => "/v1/chat/completions/render",
                Endpoint::Completions => "/v1/completions/render",
                Endpoint::Responses => "/v1/responses/render",
                Endpoint::Messages => "/v1/messages/render",
            },
            body,
            tokenize: parsed.tokenize_request().map(Bytes::from),
            // The key that opens the worker for the request itself opens it for the question.
            authorization: head.get(header::AUTHORIZATION),
        }
    }

    fn request(&self, target: &Target, way: Way) -> Option<Request<Full<Bytes>>> {
        let (path, body) = match way {
            Way::Render => (self.render, self.body.clone()),
            Way::Tokenize => ("/tokenize", self.tokenize.clone()?),
        };
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static(path);
        let headers = request.headers_mut();
        headers.insert(header::HOST, target.host.clone());
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_LENGTH, headers::number(body.len() as u64));
        if let Some(authorization) = self.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        Some(request)
    }
}

/// Asks the ready worker of the model with the least load. `asked` is set to its URL before it is asked.
pub(super) async fn ask(shard: &Shard, question: &Question<'_>, asked: &mut Option<String>) -> (Said, Asked) {
    let Ok(_place) = shard.shared.tokens.places.try_acquire() else { return (None, Asked::Busy) };
    let Ok(_turn) = shard.shared.tokens.turns.acquire().await else { return (None, Asked::Nobody) };
    let Some((worker, ways)) = choose(shard, question) else { return (None, Asked::Nobody) };
    let url = &worker.spec.url;
    *asked = Some(url.clone());
    for way in ways {
        match ask_in(shard, question, &worker, way).await {
            Some(Told::Ids(ids)) => return (Some(ids), Asked::Answered),
            Some(Told::No) => return (None, Asked::Refused),
            Some(Told::Denied) => return (None, Asked::Denied),
            Some(Told::Absent) => {
                shard.shared.tokens.abilities.lock().is_without(url, way, Instant::now());
            }
            None => return (None, Asked::Failed),
        }
    }
    (None, Asked::Nobody)
}

/// What came of a question.
enum Told {
    Ids(Bytes),
    /// The worker does not take such a request.
    No,
    /// The worker has no such path.
    Absent,
    /// The client may not ask that. It says nothing of other clients' requests.
    Denied,
}

/// The worker that has the fewest requests of those that can be asked, and how.
fn choose(shard: &Shard, question: &Question<'_>) -> Option<(Arc<Worker>, Vec<Way>)> {
    let router = shard.shared.router.lock();
    let abilities = shard.shared.tokens.abilities.lock();
    let now = Instant::now();
    let time = shard.shared.router.time(now);
    let ways = |worker: &Worker| -> Vec<Way> {
        let ways = abilities.ways(&worker.spec.url, now);
        ways.filter(|way| *way == Way::Render || question.tokenize.is_some()).collect()
    };
    let load = |worker: &Worker| router.ledger().load(worker.id.slot());
    let answers = |worker: &Worker| !load(worker).is_some_and(|load| load.is_failing(time));
    router
        .fleet()
        .iter()
        .filter(|(worker, state)| {
            *state == WorkerState::Ready && worker.serves(question.model.as_deref()) && answers(worker)
        })
        .map(|(worker, _)| (worker, ways(worker)))
        .filter(|(_, ways)| !ways.is_empty())
        .min_by_key(|(worker, _)| load(worker).map_or(0, |load| load.requests()))
        .map(|(worker, ways)| (Arc::clone(worker), ways))
}

/// Nothing where the worker fails.
async fn ask_in(shard: &Shard, question: &Question<'_>, worker: &Worker, way: Way) -> Option<Told> {
    let target = shard.pools.target(&worker.spec.url)?;
    let (reply, mut upstream) = match send_on_kept(shard, question, &target, way).await {
        Some(sent) => sent,
        None => {
            let mut upstream = shard.pools.connect(&target, shard.config().connect_timeout()).await.ok()?;
            (upstream.send(question.request(&target, way)?).await.ok()?, upstream)
        }
    };
    let status = reply.status();
    let body = read(&mut upstream, reply.into_body()).await?;
    let mut done = Some(upstream);
    poll_fn(|cx| {
        if let Some(upstream) = done.take() {
            shard.pools.keep(&target, upstream, cx);
        }
        Poll::Ready(())
    })
    .await;
    match status {
        StatusCode::OK => answer::read(&body).map(Told::Ids),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            Some(Told::Absent)
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Some(Told::Denied),
        // It has too much to do, which passes.
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => None,
        status if status.is_client_error() => Some(Told::No),
        _ => None,
    }
}

/// Nothing where there is no kept connection, or it had been closed before the question came.
async fn send_on_kept(
    shard: &Shard,
    question: &Question<'_>,
    target: &Target,
    way: Way,
) -> Option<(Response<Incoming>, Upstream)> {
    let mut upstream = poll_fn(|cx| Poll::Ready(shard.pools.take(target, cx))).await?;
    let reply = upstream.send(question.request(target, way)?).await.ok()?;
    Some((reply, upstream))
}

/// The whole reply; nothing where it breaks off or is too long.
async fn read(upstream: &mut Upstream, mut incoming: Incoming) -> Option<Bytes> {
    let mut body = BytesMut::new();
    loop {
        let frame = poll_fn(|cx| {
            // The connection has no task of its own: whoever waits for its bytes moves it.
            upstream.drive(cx);
            Pin::new(&mut incoming).poll_frame(cx)
        });
        match frame.await {
            None => return Some(body.freeze()),
            Some(Err(_)) => return None,
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    if body.len() + data.len() > REPLY_BYTES {
                        return None;
                    }
                    body.extend_from_slice(&data);
                }
            }
        }
    }
}
