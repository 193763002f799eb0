//! From a request's bytes to a worker.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use warmroute_core::block::BlockHash;
use warmroute_core::ids::WorkerId;
use warmroute_core::load::ledger::Outcome;
use warmroute_core::router::{Decision, Lease, RouteRequest, SharedRouter};
use warmroute_prompt::{Body, Endpoint, Prompt, Prompter, Refused, Rung};

use crate::config::ProxyConfig;
use crate::headers;
use crate::refusal::Refusal;
use crate::shard::Shard;
use crate::stats::RefusalKind;
use crate::tokens;

/// Bytes of a tenant's or session's name that count.
const NAME_BYTES: usize = 256;
/// Bytes of a prompt that are encoded here, where it has so many that were not seen; a prompt with more is made on
/// another thread: streams must not wait for it.
const ENCODED_HERE: usize = 16 << 10;
/// A longer body is not looked up here, either, where there is a tokenizer.
const LOOKED_UP_HERE: usize = 1 << 20;

/// A worker's booking. Dropped, it counts as cancelled: whoever asked is gone.
#[derive(Debug)]
pub(crate) struct Booking(Lease);

impl Booking {
    pub(crate) fn lease(&self) -> &Lease {
        &self.0
    }

    pub(crate) fn decision(&self) -> &Decision {
        self.0.decision()
    }

    pub(crate) fn close(mut self, outcome: Outcome) {
        self.0.close(outcome);
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        self.0.close(Outcome::Cancelled);
    }
}

/// A booked worker.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) booking: Booking,
    pub(crate) rung: Rung,
    /// Why its tokens could not be made here.
    refused: Option<Refused>,
}

/// How far a decision is.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack for a moment, once a request")]
enum Step {
    Routed(Routed),
    /// A worker is worth asking for the tokens, which cannot be had here for that reason.
    Ask(Refused),
}

/// Who decides, and for whom.
struct Question<'a> {
    router: &'a SharedRouter,
    prompter: &'a Prompter,
    tenant: Option<&'a str>,
    session: Option<&'a str>,
    avoid: &'a [WorkerId],
    random: u64,
    config: &'a ProxyConfig,
}

/// Chooses a worker for `body` and books it, leaving out those in `avoid`.
pub(crate) async fn route(
    shard: &Shard,
    endpoint: Option<Endpoint>,
    head: &HeaderMap,
    body: &Bytes,
    avoid: &[WorkerId],
) -> Result<Routed, Refusal> {
    let began = Instant::now();
    let routed = match endpoint {
        Some(endpoint) => by_prompt(shard, endpoint, head, body, avoid).await,
        None => Question::new(shard, head, avoid).by_load(body),
    };
    shard.stats.decision.observe(began.elapsed());
    if let Ok(routed) = &routed {
        shard.stats.prompts[routed.rung as usize].one();
        if let Some(refused) = routed.refused {
            shard.stats.inexact[refused as usize].one();
        }
    }
    routed
}

/// By tokens made here, else by those that a worker makes, else by text.
async fn by_prompt(
    shard: &Shard,
    endpoint: Endpoint,
    head: &HeaderMap,
    body: &Bytes,
    avoid: &[WorkerId],
) -> Result<Routed, Refusal> {
    let step = match here(shard, endpoint, head, body, avoid)? {
        Some(step) => step,
        None => elsewhere(shard, endpoint, head, body, avoid).await?,
    };
    let refused = match step {
        Step::Routed(routed) => return Ok(routed),
        Step::Ask(refused) => refused,
    };
    let ids = tokens::of_worker(shard, endpoint, head, body).await;
    let body = Body::parse(endpoint, body)?;
    let prompt = match ids {
        Some(ids) => Prompt::of_worker(ids.to_vec(), refused),
        None => shard.shared.prompter.read_text(&body, refused)?,
    };
    Question::new(shard, head, avoid).book_prompt(&body, &prompt, &mut shard.blocks.borrow_mut())
}

/// A decision that takes no longer than streams may wait; nothing where too much is to be encoded for it.
fn here(
    shard: &Shard,
    endpoint: Endpoint,
    head: &HeaderMap,
    body: &Bytes,
    avoid: &[WorkerId],
) -> Result<Option<Step>, Refusal> {
    if body.len() > LOOKED_UP_HERE && shard.shared.prompter.has_tokenizer() {
        return Ok(None);
    }
    let parsed = shard.shared.prompter.parse(endpoint, body)?;
    let Some(prompt) = shard.shared.prompter.read_within(&parsed, ENCODED_HERE)? else { return Ok(None) };
    let question = Question::new(shard, head, avoid);
    question.by_prompt(&parsed, &prompt, body.len(), &mut shard.blocks.borrow_mut()).map(Some)
}

/// The same on a thread that may take its time.
async fn elsewhere(
    shard: &Shard,
    endpoint: Endpoint,
    head: &HeaderMap,
    body: &Bytes,
    avoid: &[WorkerId],
) -> Result<Step, Refusal> {
    let failed = |_| Refusal::new(RefusalKind::Busy, "the prompt could not be encoded: try again");
    shard.stats.encoded_elsewhere.one();
    // Waiting requests wait in order, and one that is dropped leaves the queue.
    let turn = Arc::clone(&shard.encoders).acquire_owned().await;
    let turn = turn.map_err(|_| Refusal::busy("the router is stopping"))?;
    let shared = shard.shared.clone();
    let question = Question::new(shard, head, avoid);
    let (tenant, session) = (question.tenant.map(str::to_owned), question.session.map(str::to_owned));
    let (body, avoid, random) = (body.clone(), avoid.to_vec(), question.random);
    let encode = move || {
        let _turn = turn;
        let question = Question {
            router: &shared.router,
            prompter: &shared.prompter,
            tenant: tenant.as_deref(),
            session: session.as_deref(),
            avoid: &avoid,
            random,
            config: &shared.config,
        };
        let parsed = question.prompter.parse(endpoint, &body)?;
        let prompt = question.prompter.read(&parsed)?;
        question.by_prompt(&parsed, &prompt, body.len(), &mut Vec::new())
    };
    tokio::task::spawn_blocking(encode).await.map_err(failed)?
}

impl<'a> Question<'a> {
    fn new(shard: &'a Shard, head: &'a HeaderMap, avoid: &'a [WorkerId]) -> Question<'a> {
        Question {
            router: &shard.shared.router,
            prompter: &shard.shared.prompter,
            tenant: headers::text(head, &headers::TENANT).map(cut),
            session: headers::text(head, &headers::SESSION).map(cut),
            avoid,
            random: shard.random(),
            config: shard.config(),
        }
    }

    /// Books a worker by `prompt`, that of `body`, which has `length` bytes, unless a worker is to be asked for tokens.
    fn by_prompt(
        &self,
        body: &Body<'_>,
        prompt: &Prompt<'_>,
        length: usize,
        blocks: &mut Vec<BlockHash>,
    ) -> Result<Step, Refusal> {
        match prompt.refused() {
            Some(refused) if tokens::when::is_wanted(self.config.worker_tokenize, prompt, length) => {
                Ok(Step::Ask(refused))
            }
            _ => self.book_prompt(body, prompt, blocks).map(Step::Routed),
        }
    }

    fn book_prompt(
        &self,
        body: &Body<'_>,
        prompt: &Prompt<'_>,
        blocks: &mut Vec<BlockHash>,
    ) -> Result<Routed, Refusal> {
        let (user, salt) = (body.user(), body.cache_salt());
        let space = self.router.namespace(body.model(), salt.as_deref().unwrap_or_default());
        blocks.clear();
        prompt.hash_into(self.router.hasher(), &space, blocks);
        let request = RouteRequest {
            blocks,
            prompt_tokens: prompt.tokens(),
            units: prompt.units(),
            model: body.model(),
            tenant: self.tenant.or(user.as_deref().map(cut)).unwrap_or_default(),
            max_output_tokens: body.max_tokens(),
            ..self.request()
        };
        self.book(&request, prompt.rung(), prompt.refused())
    }

    /// A request that has no prompt goes where the load is least, among the workers that serve its model.
    fn by_load(&self, body: &Bytes) -> Result<Routed, Refusal> {
        // Which fields it has is the worker's affair; what is not JSON names no model.
        let parsed = Body::parse(Endpoint::Completions, body).ok();
        let model = parsed.as_ref().and_then(Body::model);
        self.book(&RouteRequest { model, ..self.request() }, Rung::LoadOnly, None)
    }

    fn request(&self) -> RouteRequest<'a> {
        RouteRequest {
            tenant: self.tenant.unwrap_or_default(),
            session: self.session,
            avoid: self.avoid,
            ..RouteRequest::default()
        }
    }

    fn book(
        &self,
        request: &RouteRequest<'_>,
        rung: Rung,
        refused: Option<Refused>,
    ) -> Result<Routed, Refusal> {
        let lease = self.router.route(request, self.router.time(Instant::now()), self.random)?;
        Ok(Routed { booking: Booking(lease), rung, refused })
    }
}

fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"é".repeat(200)).len(), 256);
        assert_eq!(cut(&format!("x{}", "é".repeat(200))).len(), 255);
    }
}
