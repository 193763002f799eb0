//! What routing needs of a request body, borrowed from it.

use std::borrow::Cow;
use std::ops::Range;

use crate::cache::Passed;
use crate::json::{Cursor, unescape};
use crate::{PromptError, completion};

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

/// Raw values by name.
#[derive(Clone, Copy, Debug, Default)]
struct Fields<'a> {
    model: Option<&'a str>,
    stream: Option<&'a str>,
    max_tokens: Option<&'a str>,
    max_completion_tokens: Option<&'a str>,
    max_output_tokens: Option<&'a str>,
    cache_salt: Option<&'a str>,
    user: Option<&'a str>,
    messages: Option<&'a str>,
    system: Option<&'a str>,
    tools: Option<&'a str>,
    input: Option<&'a str>,
    instructions: Option<&'a str>,
    prompt: Option<&'a str>,
    prompt_embeds: Option<&'a str>,
    chat_template_kwargs: Option<&'a str>,
    add_generation_prompt: Option<&'a str>,
    continue_final_message: Option<&'a str>,
    add_special_tokens: Option<&'a str>,
    options: RenderOptions<'a>,
}

/// Raw values of fields that change how a chat is rendered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RenderOptions<'a> {
    pub(crate) chat_template: Option<&'a str>,
    pub(crate) truncate_prompt_tokens: Option<&'a str>,
    pub(crate) documents: Option<&'a str>,
    pub(crate) reasoning_effort: Option<&'a str>,
    pub(crate) kv_transfer_params: Option<&'a str>,
    /// Of a response: what it goes on from, its effort, how it is cut.
    pub(crate) previous_response_id: Option<&'a str>,
    pub(crate) previous_input_messages: Option<&'a str>,
    pub(crate) reasoning: Option<&'a str>,
    pub(crate) truncation: Option<&'a str>,
    /// Of an Anthropic message: its effort.
    pub(crate) output_config: Option<&'a str>,
    pub(crate) thinking: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn slot(&mut self, name: &str) -> Option<&mut Option<&'a str>> {
        Some(match name {
            "model" => &mut self.model,
            "stream" => &mut self.stream,
            "max_tokens" => &mut self.max_tokens,
            "max_completion_tokens" => &mut self.max_completion_tokens,
            "max_output_tokens" => &mut self.max_output_tokens,
            "cache_salt" => &mut self.cache_salt,
            "user" => &mut self.user,
            "messages" => &mut self.messages,
            "system" => &mut self.system,
            "tools" => &mut self.tools,
            "input" => &mut self.input,
            "instructions" => &mut self.instructions,
            "prompt" => &mut self.prompt,
            "prompt_embeds" => &mut self.prompt_embeds,
            "chat_template_kwargs" => &mut self.chat_template_kwargs,
            "add_generation_prompt" => &mut self.add_generation_prompt,
            "continue_final_message" => &mut self.continue_final_message,
            "add_special_tokens" => &mut self.add_special_tokens,
            "chat_template" => &mut self.options.chat_template,
            "truncate_prompt_tokens" => &mut self.options.truncate_prompt_tokens,
            "documents" => &mut self.options.documents,
            "reasoning_effort" => &mut self.options.reasoning_effort,
            "kv_transfer_params" => &mut self.options.kv_transfer_params,
            "previous_response_id" => &mut self.options.previous_response_id,
            "previous_input_messages" => &mut self.options.previous_input_messages,
            "reasoning" => &mut self.options.reasoning,
            "truncation" => &mut self.options.truncation,
            "output_config" => &mut self.options.output_config,
            "thinking" => &mut self.options.thinking,
            _ => return None,
        })
    }

    fn set(&mut self, key: &'a str, value: &'a str) {
        if let Some(slot) = unescape(key).and_then(|name| self.slot(&name)) {
            *slot = (value != "null").then_some(value);
        }
    }
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

/// The places of everything in a body.
#[derive(Default)]
struct Found<'a> {
    members: Vec<(&'a [u8], &'a [u8])>,
    /// The elements of `messages`: what finds its end passes them anyway.
    elements: Vec<&'a [u8]>,
    /// The messages that are known, and all of `messages`, which is then no member.
    passed: Option<(Passed, &'a [u8])>,
    /// Where those are that are known.
    known: Range<usize>,
}

impl<'a> Found<'a> {
    fn of(body: &'a [u8], pass: &dyn Fn(&[u8]) -> Option<Passed>) -> Result<Found<'a>, PromptError> {
        let mut found = Found { members: Vec::with_capacity(16), ..Found::default() };
        let mut cursor = Cursor::new(body);
        cursor.skip_mark();
        cursor.enter(b'{', "an object")?;
        let mut first = true;
        while let Some(key) = cursor.key(first)? {
            first = false;
            let is_array = key == b"\"messages\"" && cursor.peek() == Some(b'[');
            // Of a second one, as of everything that is refused, nothing is taken for known.
            let again = found.known.end > 0 || !found.elements.is_empty();
            match is_array && !again && found.messages(key, &mut cursor, pass) {
                true => {}
                false if found.known.end > 0 && names_messages(key) => {
                    return Found::of(body, &|_| None);
                }
                false => found.member(key, cursor.value()?),
            }
        }
        cursor.finish()?;
        Ok(found)
    }

    fn member(&mut self, key: &'a [u8], value: &'a [u8]) {
        if names_messages(key) {
            self.elements.clear();
        }
        self.members.push((key, value));
    }

    /// Passes over an array and notes its elements; false where it has a fault that is not looked for here.
    fn messages(
        &mut self,
        key: &'a [u8],
        cursor: &mut Cursor<'a, [u8]>,
        pass: &dyn Fn(&[u8]) -> Option<Passed>,
    ) -> bool {
        let mut inside = cursor.clone();
        inside.pass(1);
        inside.skip_space();
        let from = inside.at();
        let passed = pass(inside.rest());
        inside.pass(passed.as_ref().map_or(0, |passed| passed.length));
        let (known, mut elements) = (from..inside.at(), Vec::new());
        loop {
            match inside.element(passed.is_none() && elements.is_empty()) {
                Ok(Some(element)) => elements.push(element),
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        let raw = cursor.up_to(&inside);
        *cursor = inside;
        self.elements = elements;
        match passed {
            Some(passed) => (self.passed, self.known) = (Some((passed, raw)), known),
            None => self.members.push((key, raw)),
        }
        true
    }
}

/// Whether `key` is `messages`, however it is written.
fn names_messages(key: &[u8]) -> bool {
    std::str::from_utf8(key).ok().and_then(unescape).is_some_and(|name| name == "messages")
}

/// The text of `part`, a part of `body`, of which `texts` are the texts with where they begin.
fn text_of<'a>(body: &'a [u8], texts: &[(usize, &'a str); 2], part: &'a [u8]) -> &'a str {
    let at = (part.as_ptr() as usize).wrapping_sub(body.as_ptr() as usize);
    let found = texts.iter().find_map(|(start, text)| {
        let from = at.checked_sub(*start)?;
        text.get(from..from.checked_add(part.len())?)
    });
    found.unwrap_or_default()
}
