//! The body that a worker is sent.

use bytes::Bytes;
use serde::{Serialize, Serializer};
use warmroute_prompt::Endpoint;

use crate::asked;
use crate::failure::Failure;
use crate::pb;
use crate::pb::route_request::Prompt;

/// Texts and tokens that may end a reply.
const STOPS: (usize, usize) = (64, 1024);

/// The path at the worker, and the body.
pub(super) fn of(
    request: &pb::RouteRequest,
    sampling: Option<&pb::Sampling>,
    token_ids: bool,
) -> Result<(&'static str, Bytes), Failure> {
    let prompt = match &request.prompt {
        Some(Prompt::Openai(body)) => {
            if sampling.is_some() {
                return Err(Failure::invalid("sampling", "sampling stands in the OpenAI body"));
            }
            return of_openai(body, request.priority, token_ids);
        }
        Some(Prompt::TokenIds(ids)) => Ids::Packed(ids),
        Some(Prompt::TokenList(list)) => Ids::List(&list.ids),
        Some(Prompt::Text(text)) => Ids::Text(text),
        None => Ids::Text(""),
    };
    let sampling = sampling.map(checked).transpose()?.unwrap_or_default();
    let model = if request.lora.is_empty() { &request.model } else { &request.lora };
    let body = Completion {
        model: some(model),
        prompt,
        max_tokens: request.max_output_tokens,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        return_token_ids: token_ids,
        cache_salt: some(&request.cache_salt),
        priority: request.priority,
        sampling,
    };
    let json = serde_json::to_vec(&body).map_err(|error| Failure::invalid("request", error.to_string()))?;
    Ok(("/v1/completions", json.into()))
}

fn some(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

/// The caller's body with what is needed behind its own fields: of a field that comes twice the last one counts.
fn of_openai(
    body: &pb::OpenAiBody,
    priority: i32,
    token_ids: bool,
) -> Result<(&'static str, Bytes), Failure> {
    let path = match asked::parse(body)?.endpoint() {
        Endpoint::ChatCompletions => "/v1/chat/completions",
        Endpoint::Completions => "/v1/completions",
        Endpoint::Responses | Endpoint::Messages => {
            let message =
                "Generate takes chats and completions: ask Route, and send it to the worker yourself";
            return Err(Failure::invalid("openai.endpoint", message));
        }
    };
    // It was parsed: the last character that is no space closes the object.
    let open = body.json.trim_ascii_end();
    let open = open.strip_suffix(b"}").unwrap_or(open).trim_ascii_end();
    let mut json = Vec::with_capacity(body.json.len() + 128);
    json.extend_from_slice(open);
    if !open.ends_with(b"{") {
        json.push(b',');
    }
    json.extend_from_slice(br#""stream":true,"stream_options":{"include_usage":true}"#);
    if token_ids {
        json.extend_from_slice(br#","return_token_ids":true"#);
    }
    if priority != 0 {
        json.extend_from_slice(format!(",\"priority\":{priority}").as_bytes());
    }
    json.push(b'}');
    Ok((path, json.into()))
}

/// A prompt as JSON.
enum Ids<'a> {
    Packed(&'a Bytes),
    List(&'a [u32]),
    Text(&'a str),
}

impl Serialize for Ids<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Ids::Packed(ids) => {
                let (ids, _) = ids.as_chunks::<4>();
                serializer.collect_seq(ids.iter().map(|id| u32::from_le_bytes(*id)))
            }
            Ids::List(ids) => serializer.collect_seq(*ids),
            Ids::Text(text) => serializer.serialize_str(text),
        }
    }
}

#[derive(Serialize)]
struct Completion<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    prompt: Ids<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    return_token_ids: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_salt: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    priority: i32,
    #[serde(flatten)]
    sampling: Sampling<'a>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Default, Serialize)]
struct Sampling<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetition_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_token_ids: &'a [u32],
    #[serde(skip_serializing_if = "Option::is_none")]
    min_tokens: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ignore_eos: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// Refuses what JSON cannot say and what is too long; of the rest the worker says what is wrong with it.
fn checked(sampling: &pb::Sampling) -> Result<Sampling<'_>, Failure> {
    let numbers = [
        ("sampling.temperature", sampling.temperature),
        ("sampling.top_p", sampling.top_p),
        ("sampling.min_p", sampling.min_p),
        ("sampling.presence_penalty", sampling.presence_penalty),
        ("sampling.frequency_penalty", sampling.frequency_penalty),
        ("sampling.repetition_penalty", sampling.repetition_penalty),
    ];
    if let Some((field, _)) = numbers.into_iter().find(|(_, x)| x.is_some_and(|x| !x.is_finite())) {
        return Err(Failure::invalid(field, format!("{field} is not a finite number")));
    }
    if sampling.stop.len() > STOPS.0 {
        let message = format!("sampling.stop has {} texts: at most {}", sampling.stop.len(), STOPS.0);
        return Err(Failure::invalid("sampling.stop", message));
    }
    if sampling.stop_token_ids.len() > STOPS.1 {
        let count = sampling.stop_token_ids.len();
        let message = format!("sampling.stop_token_ids has {count} ids: at most {}", STOPS.1);
        return Err(Failure::invalid("sampling.stop_token_ids", message));
    }
    Ok(Sampling {
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        top_k: sampling.top_k,
        min_p: sampling.min_p,
        presence_penalty: sampling.presence_penalty,
        frequency_penalty: sampling.frequency_penalty,
        repetition_penalty: sampling.repetition_penalty,
        seed: sampling.seed,
        stop: &sampling.stop,
        stop_token_ids: &sampling.stop_token_ids,
        min_tokens: sampling.min_tokens,
        ignore_eos: sampling.ignore_eos,
    })
}
