//! Replies in OpenAI's shapes, with vLLM's fields.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::driver::{Token, unix_seconds};
use super::openai::Kind;
use super::vocabulary::Vocabulary;
use crate::engine::Finish;

/// What the replies to one call have in common.
#[derive(Debug)]
pub(super) struct Reply {
    kind: Kind,
    id: String,
    model: String,
    created: u64,
    vocabulary: Arc<Vocabulary>,
    block_size: u64,
    /// The start of every chunk, up to the choice's number.
    chunk_head: String,
    usage: Usage,
    pub(super) include_usage: bool,
    /// Whether choices have the ids of their tokens.
    pub(super) token_ids: bool,
    /// Choices whose last token has not come.
    unfinished: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    prompt: usize,
    completion: usize,
    cached: u64,
    /// Of a chat: prompt tokens in full blocks that were not in the cache before.
    created: Option<u64>,
}

impl Usage {
    fn json(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + self.completion,
            "completion_tokens": self.completion,
            "prompt_tokens_details": {
                "cached_tokens": self.cached, "created_cache_tokens": self.created, "multimodal_tokens": null,
            },
            "completion_tokens_details": null,
        })
    }
}

impl Reply {
    /// A reply for a call of these prompt lengths, which `request_id` names.
    pub(super) fn new(
        kind: Kind,
        model: &str,
        request_id: &str,
        vocabulary: &Arc<Vocabulary>,
        block_size: u32,
        prompts: impl ExactSizeIterator<Item = usize>,
    ) -> Reply {
        let (prefix, object) = match kind {
            Kind::Chat => ("chatcmpl", "chat.completion.chunk"),
            Kind::Completion => ("cmpl", "text_completion"),
        };
        let (id, created) = (format!("{prefix}-{request_id}"), unix_seconds() as u64);
        let chunk_head = format!(
            "data: {{\"id\":{},\"object\":\"{object}\",\"created\":{created},\"model\":{},\"choices\":[",
            json!(id),
            json!(model)
        );
        let unfinished = prompts.len();
        Reply {
            kind,
            id,
            model: model.to_owned(),
            created,
            vocabulary: Arc::clone(vocabulary),
            block_size: u64::from(block_size),
            chunk_head,
            usage: Usage { prompt: prompts.sum(), ..Usage::default() },
            include_usage: false,
            token_ids: false,
            unfinished,
        }
    }

    /// Counts a token in; whether it was the call's last.
    pub(super) fn count(&mut self, token: &Token) -> bool {
        self.usage.completion += 1;
        if token.emitted.index == 0 {
            self.usage.cached += u64::from(token.emitted.cached_tokens);
            let full = self.usage.prompt as u64 / self.block_size * self.block_size;
            self.usage.created = (self.kind == Kind::Chat).then(|| full.saturating_sub(self.usage.cached));
        }
        self.unfinished -= usize::from(token.emitted.finished.is_some());
        self.unfinished == 0
    }

    /// Writes the chunk of a token, before the first one of a chat also the chunk with the role.
    pub(super) fn write_chunk(&self, token: &Token, out: &mut String) {
        let choice = token.choice;
        if self.kind == Kind::Chat && token.emitted.index == 0 {
            self.write_choice(out, |out| {
                write!(
                    out,
                    "{{\"index\":{choice},\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\
                     \"logprobs\":null,\"finish_reason\":null}}"
                )
            });
        }
        let text = self.vocabulary.text(token.emitted.token);
        let delta = match self.kind {
            Kind::Chat => ("\"delta\":{\"content\":\"", "\"}"),
            Kind::Completion => ("\"text\":\"", "\""),
        };
        let finish = token.emitted.finished.map_or("null", |finish| match finish {
            Finish::Stop => "\"stop\"",
            Finish::Length => "\"length\"",
        });
        let ids = if self.token_ids { format!("[{}]", token.emitted.token) } else { "null".to_owned() };
        self.write_choice(out, |out| {
            write!(
                out,
                "{{\"index\":{choice},{}{text}{},\"logprobs\":null,\"finish_reason\":{finish},\
                 \"stop_reason\":null,\"token_ids\":{ids}}}",
                delta.0, delta.1
            )
        });
    }

    /// Writes what follows the last token.
    pub(super) fn write_end(&self, out: &mut String) {
        if self.include_usage {
            out.push_str(&self.chunk_head);
            out.push_str("],\"usage\":");
            out.push_str(&self.usage.json().to_string());
            out.push_str("}\n\n");
        }
        out.push_str("data: [DONE]\n\n");
    }

    fn write_choice(&self, out: &mut String, write: impl FnOnce(&mut String) -> std::fmt::Result) {
        out.push_str(&self.chunk_head);
        // A String takes every character.
        let _written = write(out);
        out.push_str("]}\n\n");
    }

    /// The whole reply, once every token was counted.
    pub(super) fn whole(&self, choices: &[Vec<Token>]) -> String {
        let choices: Vec<Value> = choices.iter().map(|tokens| self.choice(tokens)).collect();
        let object = match self.kind {
            Kind::Chat => "chat.completion",
            Kind::Completion => "text_completion",
        };
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices,
            "service_tier": null, "system_fingerprint": null, "usage": self.usage.json(),
            "prompt_logprobs": null, "prompt_token_ids": null, "kv_transfer_params": null, "metrics": null,
        })
        .to_string()
    }

    fn choice(&self, tokens: &[Token]) -> Value {
        let text: String = tokens.iter().map(|token| self.vocabulary.text(token.emitted.token)).collect();
        let index = tokens.first().map_or(0, |token| token.choice);
        let finish = tokens.last().and_then(|token| token.emitted.finished).map(|finish| match finish {
            Finish::Stop => "stop",
            Finish::Length => "length",
        });
        let (name, content) = match self.kind {
            Kind::Chat => ("message", message(&text)),
            Kind::Completion => ("text", json!(text)),
        };
        let ids = self.token_ids.then(|| tokens.iter().map(|token| token.emitted.token).collect::<Vec<_>>());
        let mut choice = json!({
            "index": index, "logprobs": null, "finish_reason": finish, "stop_reason": null, "token_ids": ids,
        });
        choice[name] = content;
        choice
    }
}

fn message(text: &str) -> Value {
    json!({
        "role": "assistant", "content": text, "refusal": null, "annotations": null, "audio": null,
        "function_call": null, "reasoning": null,
    })
}
