//! A chat body as its template is given it: what vLLM makes of messages, tools and options before it
//! renders them. The rules are those of vLLM 0.32.
//!
//! Bodies of `/v1/responses` and `/v1/messages` are first written as the chat that vLLM makes of them.

mod anthropic;
mod content;
mod continued;
mod media;
mod message;
mod responses;
mod system;
mod tools;

use std::borrow::Cow;

use minijinja::Value;

pub(crate) use anthropic::{Effort, anthropic};
use continued::Continued;
pub(crate) use media::{MARK, WithoutMedia};
pub(crate) use message::message;
pub(crate) use responses::responses;
use system::without_developer;
pub(crate) use tools::tools;

use crate::json::{Cursor, to_value, unescape};
use crate::template::{ChatTemplate, ContentFormat};
use crate::{Body, Endpoint, Refused, python};

/// What a body asks to be rendered, in the same form for every endpoint that has chats.
pub(crate) struct Request<'a> {
    /// Each normalised by itself.
    messages: Vec<Value>,
    /// `None` where the request brings none; a list of none is something else to a template.
    tools: Option<Value>,
    options: Options<'a>,
}

/// What is rendered, and how the text is cut.
pub(crate) struct Rendering {
    /// The variables of the template, except for the tokenizer's named tokens.
    pub(crate) variables: Vec<(String, Value)>,
    /// Where the text is cut.
    pub(crate) continued: Option<Continued>,
}

/// Whether the template is given tools; a response with an empty list has none.
pub(crate) fn has_tools(body: &Body<'_>) -> bool {
    let is_response = body.endpoint() == Endpoint::Responses;
    body.tools().is_some_and(|raw| !is_response || elements(raw).is_ok_and(|tools| !tools.is_empty()))
}

/// What `body` asks of a template that takes content in `format`.
///
/// # Errors
/// [`Refused`] for media, for what the worker would refuse, and for options that change the prompt in ways
/// that are not followed here.
pub(crate) fn read<'a>(body: &Body<'a>, format: ContentFormat) -> Result<Request<'a>, Refused> {
    let messages = elements(body.messages().map_err(|_| Refused::Messages)?)?;
    let messages = messages.into_iter().map(|raw| message(raw, format)).collect::<Result<_, _>>()?;
    let tools = body.tools().map(tools).transpose()?;
    Ok(Request { messages, tools, options: Options::of(body)? })
}

/// The variables of the chat `body` but its messages and tools.
///
/// # Errors
/// As [`read`], and [`Refused::FinalMessage`] where the final message is to be continued.
pub(crate) fn settings(body: &Body<'_>) -> Result<Vec<(String, Value)>, Refused> {
    let options = Options::of(body)?;
    if options.continues { Err(Refused::FinalMessage) } else { options.variables() }
}

/// What a request says besides its messages and tools; values are raw.
struct Options<'a> {
    effort: Option<&'a str>,
    documents: Option<&'a str>,
    keywords: Option<&'a str>,
    prompts: bool,
    continues: bool,
}

impl<'a> Options<'a> {
    /// Those of a chat.
    fn of(body: &Body<'a>) -> Result<Options<'a>, Refused> {
        let options = body.render_options();
        if options.kv_transfer_params.is_some_and(|raw| raw.contains("prompt_token_ids")) {
            return Err(Refused::ReusedIds);
        }
        if options.truncate_prompt_tokens.is_some() {
            return Err(Refused::Truncated);
        }
        if options.chat_template.is_some() {
            return Err(Refused::OwnTemplate);
        }
        if !body.has_plain_flags() {
            return Err(Refused::Option);
        }
        Ok(Options {
            effort: options.reasoning_effort,
            documents: options.documents,
            keywords: body.chat_template_kwargs(),
            prompts: body.add_generation_prompt(),
            continues: body.continue_final_message(),
        })
    }

    fn variables(&self) -> Result<Vec<(String, Value)>, Refused> {
        let mut variables = Vec::new();
        let keywords = self.keywords.map(Members::of).transpose().map_err(|_| Refused::Keywords)?;
        if let Some(raw) = self.effort {
            variables.push(("reasoning_effort".to_owned(), to_value(raw)?));
            // A template that can think does so when effort is asked for, unless the request says otherwise.
            if keywords.as_ref().is_none_or(|keywords| keywords.raw("enable_thinking").is_none()) {
                variables.push(("enable_thinking".to_owned(), Value::from(raw != "\"none\"")));
            }
        }
        if let Some(raw) = self.documents {
            variables.push(("documents".to_owned(), to_value(raw)?));
        }
        for (name, raw) in keywords.into_iter().flatten() {
            add_keyword(name, raw, &mut variables)?;
        }
        if !variables.iter().any(|(name, _)| name == "documents") {
            variables.push(("documents".to_owned(), Value::from(())));
        }
        variables.push(("add_generation_prompt".to_owned(), Value::from(self.prompts)));
        Ok(variables)
    }
}

impl Request<'_> {
    /// The variables of `template`.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn rendering(self, template: &ChatTemplate) -> Result<Rendering, Refused> {
        let mut variables = self.options.variables()?;
        let mut messages = all(self.messages, template)?;
        let continued = match self.options.continues {
            false => None,
            true if self.options.prompts || !template.mentions_content() => {
                return Err(Refused::FinalMessage);
            }
            true => Some(Continued::mark(&mut messages)?),
        };
        variables.push(("messages".to_owned(), python::list(messages)));
        variables.push(("tools".to_owned(), self.tools.unwrap_or(Value::from(()))));
        Ok(Rendering { variables, continued })
    }
}

/// The messages of a conversation, each normalised by itself, as the template is given them.
pub(crate) fn all(messages: Vec<Value>, template: &ChatTemplate) -> Result<Vec<Value>, Refused> {
    if messages.is_empty() {
        return Err(Refused::Messages);
    }
    Ok(if template.knows_developer() { messages } else { without_developer(messages) })
}

/// Names that `chat_template_kwargs` may not give a value here: they are arguments of the renderer.
const RESERVED: [&str; 12] = [
    "messages",
    "conversation",
    "tools",
    "chat_template",
    "tokenize",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
];
/// Names that the worker drops: the request's own fields come first, and Jinja's functions are no variables.
const DROPPED: [&str; 8] = [
    "add_generation_prompt",
    "continue_final_message",
    "range",
    "dict",
    "lipsum",
    "cycler",
    "joiner",
    "namespace",
];

/// Adds one of the request's own variables; one that is null or "auto" counts as not given, and what the
/// request says in a field of its own comes first.
fn add_keyword(name: Cow<'_, str>, raw: &str, variables: &mut Vec<(String, Value)>) -> Result<(), Refused> {
    if RESERVED.contains(&&*name) {
        return Err(Refused::Keywords);
    }
    if DROPPED.contains(&&*name) {
        return Ok(());
    }
    let given = raw != "null" && raw != "\"auto\"";
    if given && !variables.iter().any(|(known, _)| *known == name) {
        variables.push((name.into_owned(), to_value(raw)?));
    }
    Ok(())
}

/// The members of one object, names unescaped and values raw; of a repeated name the last counts.
struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

/// Members of an object that are looked through one by one; requests have about ten.
const MAX_MEMBERS: usize = 64;

impl<'a> Members<'a> {
    fn of(raw: &'a str) -> Result<Members<'a>, Refused> {
        const NOT_AN_OBJECT: Refused = Refused::NotJson;
        let mut cursor = Cursor::new(raw);
        cursor.enter(b'{', "an object").map_err(|_| NOT_AN_OBJECT)?;
        let mut members: Vec<(Cow<'_, str>, &str)> = Vec::new();
        while let Some((key, value)) = cursor.member(members.is_empty()).map_err(|_| NOT_AN_OBJECT)? {
            let name = unescape(key).ok_or(NOT_AN_OBJECT)?;
            if let Some(member) = members.iter_mut().find(|(known, _)| *known == name) {
                member.1 = value;
            } else if members.len() < MAX_MEMBERS {
                members.push((name, value));
            } else {
                return Err(Refused::Value);
            }
        }
        Ok(Members(members))
    }

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The raw value of `name`, also where it is null.
    fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// The raw value of `name`, where it is there and not null.
    fn given(&self, name: &str) -> Option<&'a str> {
        self.raw(name).filter(|value| *value != "null")
    }
}

impl<'a> IntoIterator for Members<'a> {
    type Item = (Cow<'a, str>, &'a str);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Messages, parts, tools or calls in one list. Templates that add to a list for each message are quadratic.
pub(crate) const MAX_ELEMENTS: usize = 10_000;

/// The raw elements of an array.
///
/// # Errors
/// [`Refused`] for what is no array, and for more than [`MAX_ELEMENTS`].
pub(crate) fn elements(raw: &str) -> Result<Vec<&str>, Refused> {
    const NOT_AN_ARRAY: Refused = Refused::NotJson;
    let mut cursor = Cursor::new(raw);
    cursor.enter(b'[', "an array").map_err(|_| NOT_AN_ARRAY)?;
    let mut elements = Vec::new();
    while let Some(element) = cursor.element(elements.is_empty()).map_err(|_| NOT_AN_ARRAY)? {
        if elements.len() == MAX_ELEMENTS {
            return Err(Refused::Value);
        }
        elements.push(element);
    }
    Ok(elements)
}
