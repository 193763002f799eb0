//! From a request's bytes to a worker.

use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use warmroute_core::block::Namespace;
use warmroute_core::ids::WorkerId;
use warmroute_core::router::{Lease, RouteRequest};
use warmroute_prompt::{Body, Endpoint, Rung};

use crate::headers;
use crate::refusal::Refusal;
use crate::shard::Shard;

/// Bytes of a tenant's or session's name that count.
const NAME_BYTES: usize = 256;

/// A booked worker.
pub(crate) struct Routed {
    pub(crate) lease: Lease,
    pub(crate) rung: Rung,
}

/// Chooses a worker for `body` and books it, leaving out those in `avoid`.
pub(crate) fn route(
    shard: &Shard,
    endpoint: Option<Endpoint>,
    head: &HeaderMap,
    body: &Bytes,
    avoid: &[WorkerId],
) -> Result<Routed, Refusal> {
    let began = Instant::now();
    let routed = match endpoint {
        Some(endpoint) => by_prompt(shard, &Body::parse(endpoint, body)?, head, avoid, began),
        None => by_load(shard, head, body, avoid, began),
    };
    shard.stats.decision.observe(began.elapsed());
    routed
}

fn by_prompt(
    shard: &Shard,
    body: &Body<'_>,
    head: &HeaderMap,
    avoid: &[WorkerId],
    began: Instant,
) -> Result<Routed, Refusal> {
    let prompt = shard.shared.prompter.read(body)?;
    let router = &shard.shared.router;
    let user = body.user();
    let salt = body.cache_salt();
    let space = Namespace {
        model: body.model().unwrap_or_default(),
        salt: salt.as_deref().unwrap_or_default(),
        ..Namespace::default()
    };
    let mut blocks = shard.blocks.borrow_mut();
    blocks.clear();
    prompt.hash_into(router.hasher(), &space, &mut blocks);
    let request = RouteRequest {
        blocks: &blocks,
        prompt_tokens: prompt.tokens(),
        units: prompt.units(),
        model: body.model(),
        tenant: cut(headers::text(head, &headers::TENANT).or(user.as_deref()).unwrap_or_default()),
        session: headers::text(head, &headers::SESSION).map(cut),
        max_output_tokens: body.max_tokens(),
        avoid,
    };
    let lease = router.route(&request, router.time(began), shard.random())?;
    Ok(Routed { lease, rung: prompt.rung() })
}

/// A request that has no prompt goes where the load is least, among the workers that serve its model.
fn by_load(
    shard: &Shard,
    head: &HeaderMap,
    body: &Bytes,
    avoid: &[WorkerId],
    began: Instant,
) -> Result<Routed, Refusal> {
    // Which fields it has is the worker's affair; what is not JSON names no model.
    let parsed = Body::parse(Endpoint::Completions, body).ok();
    let request = RouteRequest {
        model: parsed.as_ref().and_then(Body::model),
        tenant: cut(headers::text(head, &headers::TENANT).unwrap_or_default()),
        session: headers::text(head, &headers::SESSION).map(cut),
        avoid,
        ..RouteRequest::default()
    };
    let router = &shard.shared.router;
    let lease = router.route(&request, router.time(began), shard.random())?;
    Ok(Routed { lease, rung: Rung::LoadOnly })
}

fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
