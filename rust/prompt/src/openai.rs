//! What routing needs of a request body, borrowed from it.

use std::borrow::Cow;

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
    raw: &'a str,
    model: Option<Cow<'a, str>>,
    fields: Fields<'a>,
    /// The elements of `messages`, where it is an array.
    message_list: Vec<&'a str>,
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
    /// Costs one pass over the bytes and no allocation for a model name without escapes.
    ///
    /// # Errors
    /// What is not a JSON object in UTF-8 is refused with the byte at fault; `model`, where it is there,
    /// must be a string.
    pub fn parse(endpoint: Endpoint, body: &'a [u8]) -> Result<Body<'a>, PromptError> {
        let text = simdutf8::basic::from_utf8(body).map_err(|_| {
            // The fast check does not say where; a slower one is good enough for a body that is refused.
            let at = std::str::from_utf8(body).err().map_or(0, |error| error.valid_up_to());
            PromptError::NotUtf8 { at }
        })?;
        let (fields, message_list) = find_fields(text)?;
        let model = match fields.model {
            Some(raw) => Some(unescape(raw).ok_or(MODEL_TYPE)?),
            None => None,
        };
        Ok(Body { endpoint, raw: text, model, fields, message_list })
    }

    /// What kind of request it is.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// The whole of it, as it came.
    pub fn raw(&self) -> &'a str {
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
        let (field, allowed) = ("messages", "an array of messages");
        let raw = self.fields.messages.ok_or(PromptError::Missing { field, allowed })?;
        if raw.starts_with('[') { Ok(raw) } else { Err(PromptError::WrongType { field, allowed }) }
    }

    /// The elements of `messages`, raw; `None` where it is not an array of which each can be told.
    pub(crate) fn message_list(&self) -> Option<&[&'a str]> {
        self.fields.messages.filter(|_| !self.message_list.is_empty()).map(|_| &self.message_list[..])
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

/// The fields, and the elements of `messages`: what finds its end passes them anyway.
fn find_fields(text: &str) -> Result<(Fields<'_>, Vec<&str>), PromptError> {
    let (mut fields, mut messages) = (Fields::default(), Vec::new());
    let mut cursor = Cursor::new(text);
    cursor.skip_mark();
    cursor.enter(b'{', "an object")?;
    let mut first = true;
    while let Some(key) = cursor.key(first)? {
        first = false;
        if key == "\"messages\"" && cursor.peek() == Some(b'[') {
            let (raw, elements) = array(&mut cursor)?;
            fields.messages = Some(raw);
            messages = elements;
        } else {
            let value = cursor.value()?;
            fields.set(key, value);
            if fields.messages.map(str::as_ptr) == Some(value.as_ptr()) {
                messages.clear();
            }
        }
    }
    cursor.finish()?;
    Ok((fields, messages))
}

/// An array and its elements; none of an array with a fault that is not looked for here.
fn array<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a str, Vec<&'a str>), PromptError> {
    let mut inside = cursor.clone();
    inside.enter(b'[', "an array")?;
    let mut elements = Vec::new();
    loop {
        match inside.element(elements.is_empty()) {
            Ok(Some(element)) => elements.push(element),
            Ok(None) => break,
            Err(_) => return Ok((cursor.value()?, Vec::new())),
        }
    }
    let raw = cursor.up_to(&inside);
    *cursor = inside;
    Ok((raw, elements))
}
