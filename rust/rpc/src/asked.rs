//! A request as the decision needs it: its prompt read and hashed.

use std::borrow::Cow;

use bytes::Bytes;
use warmroute_core::block::{BlockHash, Namespace, Units};
use warmroute_core::ids::WorkerId;
use warmroute_core::router::{RouteRequest, SharedRouter};
use warmroute_prompt::{Body, Endpoint, PromptError, Prompter, Refused, Rung};

use crate::failure::Failure;
use crate::pb;
use crate::pb::route_request::Prompt;

/// The longest name of a model, tenant, session, adapter or salt, in bytes.
const NAME_BYTES: usize = 256;
/// The longest request id.
const REQUEST_ID_BYTES: usize = 128;
/// Workers that a request may avoid.
const AVOIDED: usize = 256;
/// Alternatives of a decision where the request does not say how many, and at most.
const ALTERNATIVES: (u32, u32) = (2, 16);

/// A request that was read: what it asks, and its prompt's blocks.
#[derive(Debug)]
pub struct Asked {
    blocks: Vec<BlockHash>,
    prompt_tokens: u32,
    units: Units,
    model: Option<Box<str>>,
    tenant: Box<str>,
    session: Option<Box<str>>,
    max_output_tokens: Option<u32>,
    pub(crate) avoid: Vec<WorkerId>,
    pub(crate) alternatives: usize,
    pub(crate) rung: Rung,
    pub(crate) refused: Option<Refused>,
}

impl Asked {
    /// Reads `request`.
    ///
    /// # Errors
    /// [`Failure`] with the field that is wrong.
    pub(crate) fn read(
        request: &pb::RouteRequest,
        router: &SharedRouter,
        prompter: &Prompter,
    ) -> Result<Asked, Failure> {
        check(request)?;
        let asked = match request.prompt.as_ref() {
            Some(Prompt::TokenIds(ids)) => Asked::of_ids(request, ids, router)?,
            Some(Prompt::TokenList(list)) => {
                let ids: Vec<u8> = list.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
                Asked::of_ids(request, &ids, router)?
            }
            // No worker takes it, and there is nothing to book.
            Some(Prompt::Text(text)) if text.is_empty() => {
                return Err(Failure::invalid("prompt", "the prompt has no text"));
            }
            Some(Prompt::Text(text)) => Asked::of_text(request, text, router, prompter)?,
            Some(Prompt::Openai(body)) => Asked::of_body(request, body, router, prompter)?,
            None => {
                let message = "there is no prompt: set token_ids, token_list, text or openai";
                return Err(Failure::invalid("prompt", message));
            }
        };
        if asked.prompt_tokens == 0 && asked.rung == Rung::ClientIds {
            return Err(Failure::invalid("prompt", "the prompt has no token"));
        }
        Ok(asked)
    }

    /// The question to the core.
    pub(crate) fn request(&self) -> RouteRequest<'_> {
        RouteRequest {
            blocks: &self.blocks,
            prompt_tokens: self.prompt_tokens,
            units: self.units,
            model: self.model.as_deref(),
            tenant: &self.tenant,
            session: self.session.as_deref(),
            max_output_tokens: self.max_output_tokens,
            avoid: &self.avoid,
        }
    }

    fn new(request: &pb::RouteRequest, router: &SharedRouter) -> Asked {
        let named = |name: &str| (!name.is_empty()).then(|| name.into());
        let alternatives = request.max_alternatives.unwrap_or(ALTERNATIVES.0);
        Asked {
            blocks: Vec::new(),
            prompt_tokens: 0,
            units: Units::Tokens,
            // Where there is an adapter, a worker that serves the model may not have it.
            model: named(if request.lora.is_empty() { &request.model } else { &request.lora }),
            tenant: request.tenant.as_str().into(),
            session: named(&request.session),
            max_output_tokens: request.max_output_tokens,
            avoid: avoided(&request.avoid_workers, router),
            alternatives: alternatives as usize,
            rung: Rung::ClientIds,
            refused: None,
        }
    }

    fn of_ids(request: &pb::RouteRequest, ids: &[u8], router: &SharedRouter) -> Result<Asked, Failure> {
        if !ids.len().is_multiple_of(4) {
            let message = format!(
                "token_ids has {} bytes: packed little-endian 32-bit ids are a multiple of 4",
                ids.len()
            );
            return Err(Failure::invalid("token_ids", message));
        }
        let mut asked = Asked::new(request, router);
        asked.prompt_tokens = u32::try_from(ids.len() / 4).unwrap_or(u32::MAX);
        let space = space(request, router);
        router.hasher().hash_ids(&space, ids, &mut asked.blocks);
        Ok(asked)
    }

    fn of_text(
        request: &pb::RouteRequest,
        text: &str,
        router: &SharedRouter,
        prompter: &Prompter,
    ) -> Result<Asked, Failure> {
        let mut asked = Asked::new(request, router);
        let model = asked.model.as_deref();
        // As the body of a completion: what holds for those (trust, caches, how text is matched) holds for this.
        let json = completion(model, text)?;
        let at_fault = |error: PromptError| Failure::prompt("text", &error);
        let body = Body::parse(Endpoint::Completions, &json).map_err(at_fault)?;
        let space = space(request, router);
        asked.read_body(&body, &space, router, prompter).map_err(at_fault)?;
        Ok(asked)
    }

    fn of_body(
        request: &pb::RouteRequest,
        body: &pb::OpenAiBody,
        router: &SharedRouter,
        prompter: &Prompter,
    ) -> Result<Asked, Failure> {
        let body = parse(body)?;
        let mut asked = Asked::new(request, router);
        alone(request)?;
        match (body.model(), request.model.as_str()) {
            (model, "") => asked.model = model.map(Box::from),
            (Some(model), named) if model == named => {}
            (Some(_), _) => return Err(Failure::invalid("model", "the body names another model")),
            (None, _) => return Err(Failure::invalid("model", "the body names no model: name it there")),
        }
        if asked.tenant.is_empty() {
            let user = body.user().unwrap_or(Cow::Borrowed(""));
            asked.tenant = cut(&user).into();
        }
        asked.max_output_tokens = body.max_tokens();
        let salt = body.cache_salt().unwrap_or(Cow::Borrowed(""));
        let space = router.namespace(body.model(), &salt);
        let read = asked.read_body(&body, &space, router, prompter);
        read.map_err(|error| Failure::prompt("openai.json", &error))?;
        Ok(asked)
    }

    fn read_body(
        &mut self,
        body: &Body<'_>,
        space: &Namespace<'_>,
        router: &SharedRouter,
        prompter: &Prompter,
    ) -> Result<(), PromptError> {
        let prompt = prompter.read(body)?;
        prompt.hash_into(router.hasher(), space, &mut self.blocks);
        self.prompt_tokens = prompt.tokens();
        self.units = prompt.units();
        (self.rung, self.refused) = (prompt.rung(), prompt.refused());
        Ok(())
    }
}

/// Whether reading the prompt of this message may take as long as encoding a text of more than `bytes`.
pub(crate) fn has_long_text(request: &pb::RouteRequest, bytes: usize) -> bool {
    match &request.prompt {
        Some(Prompt::Text(text)) => text.len() > bytes,
        Some(Prompt::Openai(body)) => body.json.len() > bytes,
        _ => false,
    }
}

/// An OpenAI body with the fields that routing needs.
pub(crate) fn parse(body: &pb::OpenAiBody) -> Result<Body<'_>, Failure> {
    let endpoint = match pb::Endpoint::try_from(body.endpoint) {
        Ok(pb::Endpoint::Unspecified | pb::Endpoint::ChatCompletions) => Endpoint::ChatCompletions,
        Ok(pb::Endpoint::Completions) => Endpoint::Completions,
        Ok(pb::Endpoint::Responses) => Endpoint::Responses,
        Ok(pb::Endpoint::Messages) => Endpoint::Messages,
        Err(_) => return Err(Failure::invalid("openai.endpoint", "there is no such endpoint")),
    };
    Body::parse(endpoint, &body.json).map_err(|error| Failure::prompt("openai.json", &error))
}

fn completion(model: Option<&str>, text: &str) -> Result<Bytes, Failure> {
    #[derive(serde::Serialize)]
    struct Completion<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<&'a str>,
        prompt: &'a str,
    }
    let json = serde_json::to_vec(&Completion { model, prompt: text });
    json.map(Bytes::from).map_err(|error| Failure::invalid("text", error.to_string()))
}

fn space<'a>(request: &'a pb::RouteRequest, router: &SharedRouter) -> Namespace<'a> {
    let model = (!request.model.is_empty()).then_some(request.model.as_str());
    let space = router.namespace(model, &request.cache_salt);
    if request.lora.is_empty() { space } else { Namespace { lora: &request.lora, ..space } }
}

fn avoided(names: &[String], router: &SharedRouter) -> Vec<WorkerId> {
    if names.is_empty() {
        return Vec::new();
    }
    let router = router.lock();
    names.iter().filter_map(|name| router.fleet().get(name).ok()).map(|worker| worker.id).collect()
}

/// Refuses what the fields cannot hold.
fn check(request: &pb::RouteRequest) -> Result<(), Failure> {
    let names = [
        ("model", &request.model),
        ("tenant", &request.tenant),
        ("lora", &request.lora),
        ("cache_salt", &request.cache_salt),
        ("session", &request.session),
    ];
    if let Some((field, name)) = names.into_iter().find(|(_, name)| name.len() > NAME_BYTES) {
        let message = format!("{field} has {} bytes: at most {NAME_BYTES}", name.len());
        return Err(Failure::invalid(field, message));
    }
    let allowed = |c: u8| c.is_ascii_alphanumeric() || b"-_.:".contains(&c);
    if request.request_id.len() > REQUEST_ID_BYTES || !request.request_id.bytes().all(allowed) {
        let message =
            format!("request_id is not made of at most {REQUEST_ID_BYTES} letters, digits and -_.:");
        return Err(Failure::invalid("request_id", message));
    }
    if request.avoid_workers.len() > AVOIDED {
        let message = format!("avoid_workers has {} names: at most {AVOIDED}", request.avoid_workers.len());
        return Err(Failure::invalid("avoid_workers", message));
    }
    if let Some(asked) = request.max_alternatives.filter(|asked| *asked > ALTERNATIVES.1) {
        let message = format!("max_alternatives is {asked}: at most {}", ALTERNATIVES.1);
        return Err(Failure::invalid("max_alternatives", message));
    }
    Ok(())
}

/// Refuses fields that an OpenAI body says itself.
fn alone(request: &pb::RouteRequest) -> Result<(), Failure> {
    let given = [
        ("lora", !request.lora.is_empty()),
        ("cache_salt", !request.cache_salt.is_empty()),
        ("max_output_tokens", request.max_output_tokens.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((field, _)) => Err(Failure::invalid(field, format!("{field} stands in the OpenAI body"))),
        None => Ok(()),
    }
}

/// A tenant's name from a body: what is too long is cut, as by the HTTP router.
fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
