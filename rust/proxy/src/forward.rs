//! A request on its way to a worker, and once more to another where the first gave no reply.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use warmroute_core::fleet::{Worker, WorkerState};
use warmroute_core::ids::WorkerId;
use warmroute_core::load::ledger::Outcome;
use warmroute_prompt::{Endpoint, Rung};

use crate::body::Held;
use crate::exchange::Exchange;
use crate::headers;
use crate::refusal::Refusal;
use crate::reply::{Forwarded, Reply, Source};
use crate::route::{Routed, route};
use crate::shard::Shard;
use crate::stats::{Phase, RetryReason};
use crate::upstream::{SendError, Target, Upstream};

/// A kept connection that breaks within this time was closed before the request came, and not because of it.
const STALE_WITHIN: Duration = Duration::from_secs(1);

/// A request that is read whole.
pub(crate) struct Ask {
    pub(crate) head: Parts,
    pub(crate) body: Bytes,
    /// The room that the body takes.
    #[expect(dead_code, reason = "it is given back when the request is dropped")]
    pub(crate) held: Held,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) id: HeaderValue,
}

/// What a worker gave.
struct Answer {
    reply: Response<Incoming>,
    source: Source,
    overlap_tokens: u32,
    rung: Rung,
}

/// A worker that gave nothing that can be passed on.
struct Failure {
    refusal: Refusal,
    retry: Option<RetryReason>,
}

/// Sends `ask` to the best worker, and where that fails before a byte of a reply, once to another.
///
/// # Errors
/// The refusal that the client gets, and the exchange to end with it.
pub(crate) async fn forward(
    ask: Ask,
    mut exchange: Exchange,
) -> Result<Response<Reply>, (Refusal, Exchange)> {
    exchange.enter(Phase::Head);
    let shard = Rc::clone(&exchange.shard);
    let routed = match route(&shard, ask.endpoint, &ask.head.headers, &ask.body, &[]).await {
        Ok(routed) => routed,
        Err(refusal) => return Err((refusal, exchange)),
    };
    // One that is refused earns no retry: it costs no worker anything.
    shard.shared.retries.request(shard.shared.router.time(exchange.started));
    let first = Arc::clone(&routed.booking.decision().worker);
    let mut result = attempt(&shard, &ask, &mut exchange, routed).await;
    if let Some(reason) = wants_retry(&result)
        && let Some(tried) = may_retry(&shard, &first, reason)
        && let Ok(routed) = route(&shard, ask.endpoint, &ask.head.headers, &ask.body, &tried).await
    {
        shard.stats.retries[reason as usize].one();
        exchange.release(outcome(reason));
        result = attempt(&shard, &ask, &mut exchange, routed).await;
    }
    match result {
        Ok(answer) => Ok(pass_on(answer, &ask, exchange).await),
        Err(failure) => {
            exchange.release(failure.retry.map_or(Outcome::Failed, outcome));
            Err((failure.refusal, exchange))
        }
    }
}

fn outcome(reason: RetryReason) -> Outcome {
    match reason {
        RetryReason::Connect | RetryReason::Closed => Outcome::Unreachable,
        RetryReason::BadGateway | RetryReason::Unavailable => Outcome::Failed,
    }
}

fn wants_retry(result: &Result<Answer, Failure>) -> Option<RetryReason> {
    match result {
        Ok(answer) => match answer.reply.status() {
            StatusCode::BAD_GATEWAY => Some(RetryReason::BadGateway),
            // A worker that says when to come back sheds load: sent elsewhere, it would be load there.
            StatusCode::SERVICE_UNAVAILABLE if !answer.reply.headers().contains_key(header::RETRY_AFTER) => {
                Some(RetryReason::Unavailable)
            }
            _ => None,
        },
        Err(failure) => failure.retry,
    }
}

/// The workers that a retry leaves out, where there are others and the budget has a retry: `first` and those at
/// the same address, which are other ranks of the same process.
///
/// Where no connection could be had nobody did any work, so that trying another worker adds none.
fn may_retry(shard: &Shard, first: &Worker, reason: RetryReason) -> Option<Vec<WorkerId>> {
    if !shard.config().retries {
        return None;
    }
    let mut tried = vec![first.id];
    let mut others = false;
    for (worker, state) in shard.shared.router.lock().fleet().iter() {
        if worker.spec.url == first.spec.url {
            tried.push(worker.id);
        } else {
            others |= state == WorkerState::Ready;
        }
    }
    if !others {
        return None;
    }
    if reason != RetryReason::Connect && !shard.shared.take_retry() {
        shard.stats.retries_denied.one();
        return None;
    }
    Some(tried)
}

/// Sends `ask` to the worker that was booked.
async fn attempt(
    shard: &Shard,
    ask: &Ask,
    exchange: &mut Exchange,
    routed: Routed,
) -> Result<Answer, Failure> {
    let decision = routed.booking.decision();
    let worker = Arc::clone(&decision.worker);
    let overlap_tokens = decision.overlap_tokens;
    let rung = routed.rung;
    exchange.book(routed.booking);
    let name = &worker.spec.name;
    let failure = |refusal, retry| Failure { refusal, retry };
    let unreachable = |reason| failure(Refusal::unreachable(name), Some(reason));
    let target = shard.pools.target(&worker.spec.url).ok_or_else(|| unreachable(RetryReason::Connect))?;
    let dp_rank = worker.spec.dp_rank;
    let exchange_head = async {
        let kept = poll_fn(|cx| Poll::Ready(shard.pools.take(&target, cx))).await;
        if let Some(mut upstream) = kept {
            shard.stats.worker_reuses.one();
            let sent = Instant::now();
            match upstream.send(request(ask, &target, dp_rank)).await {
                // Not the worker's fault and no work of its own: it costs nothing of the budget.
                Err(SendError::Closed) if sent.elapsed() < STALE_WITHIN => {
                    shard.stats.stale_connections.one();
                }
                result => return result.map(|reply| (reply, upstream)).map_err(Some),
            }
        }
        let mut upstream = connect(shard, &target).await.ok_or(None)?;
        let reply = upstream.send(request(ask, &target, dp_rank)).await.map_err(Some)?;
        Ok((reply, upstream))
    };
    let result = match shard.config().request_timeout() {
        None => exchange_head.await,
        Some(within) => match tokio::time::timeout(within, exchange_head).await {
            Ok(result) => result,
            Err(_) => return Err(failure(Refusal::timeout(name, within), None)),
        },
    };
    match result {
        Ok((reply, upstream)) => {
            Ok(Answer { reply, source: Source { worker, target, upstream }, overlap_tokens, rung })
        }
        Err(None) => Err(unreachable(RetryReason::Connect)),
        Err(Some(SendError::Closed)) => Err(unreachable(RetryReason::Closed)),
        Err(Some(SendError::Garbage)) => Err(failure(Refusal::garbage(name), None)),
    }
}

async fn connect(shard: &Shard, target: &Target) -> Option<Upstream> {
    match shard.pools.connect(target, shard.config().connect_timeout()).await {
        Ok(upstream) => {
            shard.stats.worker_connects.one();
            Some(upstream)
        }
        Err(_) => {
            shard.stats.worker_connect_failures.one();
            None
        }
    }
}

/// The request as the worker gets it: the client's bytes, and its headers but for those of the connection.
fn request(ask: &Ask, target: &Target, dp_rank: Option<u32>) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(ask.body.clone()));
    *request.method_mut() = ask.head.method.clone();
    *request.version_mut() = Version::HTTP_11;
    if let Some(path) = ask.head.uri.path_and_query() {
        *request.uri_mut() = path.clone().into();
    }
    let headers = request.headers_mut();
    *headers = ask.head.headers.clone();
    let had_length = ask.head.headers.contains_key(header::CONTENT_LENGTH);
    if had_length || !ask.body.is_empty() {
        // A body that came in chunks goes on with its length, whatever another header said of it.
        headers.insert(header::CONTENT_LENGTH, headers::number(ask.body.len() as u64));
    }
    headers.insert(header::HOST, target.host.clone());
    headers.insert(headers::REQUEST_ID, ask.id.clone());
    if let Some(rank) = dp_rank {
        headers.insert(headers::DP_RANK, headers::number(rank.into()));
    }
    request
}

/// The worker's reply as the client gets it.
async fn pass_on(answer: Answer, ask: &Ask, mut exchange: Exchange) -> Response<Reply> {
    exchange.enter(Phase::FirstByte);
    let (mut head, incoming) = answer.reply.into_parts();
    headers::remove_hop_by_hop(&mut head.headers);
    head.version = Version::HTTP_11;
    head.headers.insert(headers::REQUEST_ID, ask.id.clone());
    head.headers.insert(headers::WORKER, headers::value(&answer.source.worker.spec.name));
    head.headers.insert(headers::OVERLAP, headers::number(answer.overlap_tokens.into()));
    head.headers.insert(headers::RUNG, HeaderValue::from_static(answer.rung.as_str()));
    let mut forwarded = Box::new(Forwarded::new(exchange, answer.source, ask.endpoint, &head, incoming));
    poll_fn(|cx| {
        forwarded.end_if_empty(cx);
        Poll::Ready(())
    })
    .await;
    Response::from_parts(head, Reply::Forwarded(forwarded))
}
