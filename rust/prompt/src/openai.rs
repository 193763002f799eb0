//! What routing needs of a request body, borrowed from it.

mod fields;
mod found;

use std::borrow::Cow;

use crate::PromptError;
use crate::cache::Passed;
use crate::completion::{self, Completion};
use crate::json::unescape;
use fields::Fields;
pub(crate) use fields::RenderOptions;
use found::{Found, text_of};

/// What kind of request a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/v1/chat/completions`
    ChatCompletions,
    /// `/v1/completions`
    Completions,
    /// `/v1/responses`
    Responses,
    /// `/v1/messages`, Anthropic's
    Messages,
}

impl Endpoint {
    /// The endpoint at `path` (without a query); `None` for a path whose requests have no prompt.
    pub fn of_path(path: &str) -> Option<Endpoint> {
        match path {
            "/v1/chat/completions" => Some(Endpoint::ChatCompletions),
            "/v1/completions" => Some(Endpoint::Completions),
            "/v1/responses" => Some(Endpoint::Responses),
            "/v1/messages" => Some(Endpoint::Messages),
            _ => None,
        }
    }
}

/// A request body with the places of what routing needs; everything is a slice of the body.
///
/// A field that is `null` counts as absent, and of a field that occurs twice the last counts, as for
/// the worker. Values are checked where they are read, and only as far as routing needs them.
#[derive(Clone, Debug)]
pub struct Body<'a> {
    endpoint: Endpoint,
    raw: &'a [u8],
    model: Option<Cow<'a, str>>,
    fields: Fields<'a>,
    /// The elements of `messages`, where it is an array, behind those that are known.
    message_list: Vec<&'a str>,
    /// The messages that it begins with and that were seen, and all of `messages`.
    known: Option<(Passed, &'a [u8])>,
}

impl<'a> Body<'a> {
    /// Finds the fields of `body`, which is a request to `endpoint`.
    ///
    /// Costs one pass over the bytes; [`Prompter::parse`](crate::Prompter::parse) passes over messages that it has
    /// seen.
    ///
    /// # Errors
    /// What is not a JSON object in UTF-8 is refused with the byte at fault; `model`, where it is there,
    /// must be a string.
    pub fn parse(endpoint: Endpoint, body: &'a [u8]) -> Result<Body<'a>, PromptError> {
        Body::parse_passing(endpoint, body, &|_| None)
    }

    /// The same, but messages that `pass` finds at the start of what it is given are not looked at.
    pub(crate) fn parse_passing(
        endpoint: Endpoint,
        body: &'a [u8],
        pass: &dyn Fn(&[u8]) -> Option<Passed>,
    ) -> Result<Body<'a>, PromptError> {
        let found = Found::of(body, pass);
        // What is known was UTF-8 before; of anything else it is told before what else is wrong.
        let known = found.as_ref().map_or(0..0, |found| found.known.clone());
        let texts = [0..known.start, known.end..body.len()].map(|range| {
            let text = simdutf8::basic::from_utf8(&body[range.clone()]).map_err(|_| {
                // The fast check does not say where; a slower one is good enough for a body that is refused.
                let error = std::str::from_utf8(&body[range.clone()]).err();
                PromptError::NotUtf8 { at: range.start + error.map_or(0, |error| error.valid_up_to()) }
            });
            text.map(|text| (range.start, text))
        });
        let [before, behind] = texts;
        let (texts, found) = ([before?, behind?], found?);
        let text = |part: &'a [u8]| text_of(body, &texts, part);
        let mut fields = Fields::default();
        for (key, value) in found.members {
            fields.set(text(key), text(value));
        }
        let model = match fields.model {
            Some(raw) => Some(unescape(raw).ok_or(MODEL_TYPE)?),
            None => None,
        };
        let message_list = found.elements.into_iter().map(text).collect();
        Ok(Body { endpoint, raw: body, model, fields, message_list, known: found.passed })
    }

    /// What kind of request it is.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// The whole of it, as it came.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// `model`. vLLM takes a request without one for the model it serves.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// `model`, where there must be one.
    ///
    /// # Errors
    /// [`PromptError::Missing`] where it is absent.
    pub fn required_model(&self) -> Result<&str, PromptError> {
        self.model().ok_or(PromptError::Missing { field: "model", allowed: "a string" })
    }

    /// Whether the reply is to be streamed.
    pub fn stream(&self) -> bool {
        self.fields.stream == Some("true")
    }

    /// How many tokens the reply may have, by whichever name the request gives it.
    ///
    /// A value that is not a positive integer is `None`: the worker says what is wrong with it.
    pub fn max_tokens(&self) -> Option<u32> {
        let fields = &self.fields;
        [fields.max_completion_tokens, fields.max_output_tokens, fields.max_tokens]
            .into_iter()
            .flatten()
            .find_map(|raw| raw.parse::<u64>().ok())
            .filter(|&limit| limit > 0)
            .map(|limit| u32::try_from(limit).unwrap_or(u32::MAX))
    }

    /// vLLM's `cache_salt`: requests with different salts share no blocks.
    pub fn cache_salt(&self) -> Option<Cow<'a, str>> {
        self.fields.cache_salt.and_then(unescape)
    }

    /// OpenAI's `user`.
    pub fn user(&self) -> Option<Cow<'a, str>> {
        self.fields.user.and_then(unescape)
    }

    /// `messages`, raw: an array.
    ///
    /// # Errors
    /// [`PromptError::Missing`] and [`PromptError::WrongType`].
    pub fn messages(&self) -> Result<&'a str, PromptError> {
        if let Some((_, raw)) = &self.known {
            return simdutf8::basic::from_utf8(raw).map_err(|_| PromptError::NotUtf8 { at: 0 });
        }
        let (field, allowed) = ("messages", "an array of messages");
        let raw = self.fields.messages.ok_or(PromptError::Missing { field, allowed })?;
        if raw.starts_with('[') { Ok(raw) } else { Err(PromptError::WrongType { field, allowed }) }
    }

    /// The same in bytes, which costs nothing for messages that are known.
    ///
    /// # Errors
    /// As [`Body::messages`].
    pub(crate) fn message_bytes(&self) -> Result<&'a [u8], PromptError> {
        match &self.known {
            Some((_, raw)) => Ok(raw),
            None => self.messages().map(str::as_bytes),
        }
    }

    /// The messages that are known, and the elements of `messages` behind them, raw; `None` where it is not an
    /// array of which each can be told.
    pub(crate) fn message_list(&self) -> Option<(Option<&Passed>, &[&'a str])> {
        let known = self.known.as_ref().map(|(known, _)| known);
        let is_told = known.is_some() || self.fields.messages.is_some() && !self.message_list.is_empty();
        is_told.then_some((known, &self.message_list[..]))
    }

    /// Anthropic's `system`, raw: a string or an array of parts.
    pub fn system(&self) -> Option<&'a str> {
        self.fields.system
    }

    /// `tools`, raw: an array.
    pub fn tools(&self) -> Option<&'a str> {
        self.fields.tools
    }

    /// `input` of a response, raw: a string or an array of items.
    ///
    /// # Errors
    /// [`PromptError::Missing`] and [`PromptError::WrongType`].
    pub fn input(&self) -> Result<&'a str, PromptError> {
        let (field, allowed) = ("input", "a string or an array of items");
        let raw = self.fields.input.ok_or(PromptError::Missing { field, allowed })?;
        if raw.starts_with(['[', '"']) { Ok(raw) } else { Err(PromptError::WrongType { field, allowed }) }
    }

    /// `instructions` of a response, raw: a string.
    pub fn instructions(&self) -> Option<&'a str> {
        self.fields.instructions
    }

    /// `prompt` of a completion, raw: a string, or an array of strings, of token ids or of arrays of ids.
    ///
    /// `None` where vLLM's `prompt_embeds` stands in its place.
    ///
    /// # Errors
    /// [`PromptError::Missing`] where there is neither.
    pub fn prompt(&self) -> Result<Option<&'a str>, PromptError> {
        match (self.fields.prompt, self.fields.prompt_embeds) {
            (None, None) => Err(PromptError::Missing { field: "prompt", allowed: completion::ALLOWED }),
            (prompt, _) => Ok(prompt),
        }
    }

    /// The same in the form that it has.
    pub(crate) fn completion(&self) -> Result<Option<Completion<'a>>, PromptError> {
        self.prompt()?.map(Completion::read).transpose()
    }

    /// `chat_template_kwargs`, raw: an object.
    pub fn chat_template_kwargs(&self) -> Option<&'a str> {
        self.fields.chat_template_kwargs
    }

    /// `add_generation_prompt`, true where it is absent.
    pub fn add_generation_prompt(&self) -> bool {
        self.fields.add_generation_prompt != Some("false")
    }

    /// `continue_final_message`, false where it is absent.
    pub fn continue_final_message(&self) -> bool {
        self.fields.continue_final_message == Some("true")
    }

    /// `add_special_tokens`: where it is absent, a completion adds them and a chat does not. vLLM adds them to a
    /// response and does not to an Anthropic message, whatever the request says.
    pub fn add_special_tokens(&self) -> bool {
        match (self.endpoint, self.fields.add_special_tokens) {
            (Endpoint::Completions, None) | (Endpoint::Responses, _) => true,
            (Endpoint::Messages, _) => false,
            (_, raw) => raw == Some("true"),
        }
    }

    /// Whether every flag of the rendering is `true`, `false` or absent. The worker takes numbers and words, too.
    pub(crate) fn has_plain_flags(&self) -> bool {
        let fields = &self.fields;
        [fields.add_generation_prompt, fields.continue_final_message, fields.add_special_tokens]
            .into_iter()
            .flatten()
            .all(|raw| raw == "true" || raw == "false")
    }

    /// What else changes how a chat is rendered.
    pub(crate) fn render_options(&self) -> &RenderOptions<'a> {
        &self.fields.options
    }
}

const MODEL_TYPE: PromptError = PromptError::WrongType { field: "model", allowed: "a string" };
