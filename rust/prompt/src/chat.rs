//! A chat body as its template is given it: what vLLM makes of messages, tools and options before it
//! renders them. The rules are those of vLLM 0.32.

mod content;
mod message;
mod system;
mod tools;

use std::borrow::Cow;

use minijinja::Value;

pub(crate) use message::message;
use system::without_developer;
pub(crate) use tools::tools;

use crate::json::{Cursor, to_value, unescape};
use crate::template::{ChatTemplate, ContentFormat};
use crate::{Body, Refused};

/// The variables of the template for `body`, except for the tokenizer's named tokens.
///
/// # Errors
/// [`Refused`] for media, for what the worker would refuse, and for options that change the prompt in ways
/// that are not followed here.
pub(crate) fn variables(
    body: &Body<'_>,
    template: &ChatTemplate,
    format: ContentFormat,
) -> Result<Vec<(String, Value)>, Refused> {
    let mut variables = settings(body)?;
    let messages = body.messages().map_err(|_| Refused::Messages)?;
    let messages = elements(messages)?.into_iter().map(|raw| message(raw, format));
    let messages = all(messages.collect::<Result<_, _>>()?, template)?;
    variables.push(("messages".to_owned(), messages));
    variables.push(("tools".to_owned(), body.tools().map_or(Ok(Value::from(())), tools)?));
    Ok(variables)
}

/// The variables of `body` but its messages and tools.
///
/// # Errors
/// As [`variables`].
pub(crate) fn settings(body: &Body<'_>) -> Result<Vec<(String, Value)>, Refused> {
    let options = body.render_options();
    if options.chat_template.is_some() {
        return Err(Refused::OwnTemplate);
    }
    if options.truncate_prompt_tokens.is_some() {
        return Err(Refused::Truncated);
    }
    if body.continue_final_message() {
        return Err(Refused::FinalMessage);
    }
    let mut variables = Vec::new();
    let keywords = body.chat_template_kwargs().map(Members::of).transpose()?;
    if let Some(raw) = options.reasoning_effort {
        variables.push(("reasoning_effort".to_owned(), to_value(raw)?));
        // A template that can think does so when effort is asked for, unless the request says otherwise.
        if keywords.as_ref().is_none_or(|keywords| keywords.raw("enable_thinking").is_none()) {
            variables.push(("enable_thinking".to_owned(), Value::from(raw != "\"none\"")));
        }
    }
    for (name, raw) in keywords.into_iter().flatten() {
        add_keyword(name, raw, &mut variables)?;
    }
    let optional = |raw: Option<&str>| raw.map_or(Ok(Value::from(())), to_value);
    variables.push(("documents".to_owned(), optional(options.documents)?));
    variables.push(("add_generation_prompt".to_owned(), Value::from(body.add_generation_prompt())));
    Ok(variables)
}

/// The messages of a conversation, each normalised by itself, as the template is given them.
pub(crate) fn all(messages: Vec<Value>, template: &ChatTemplate) -> Result<Value, Refused> {
    if messages.is_empty() {
        return Err(Refused::Messages);
    }
    Ok(Value::from(if template.knows_developer() { messages } else { without_developer(messages) }))
}

/// Names that `chat_template_kwargs` may not give a value here: they are arguments of the renderer.
const RESERVED: [&str; 13] = [
    "messages",
    "conversation",
    "tools",
    "documents",
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

/// Adds one of the request's own variables; one that is null or "auto" counts as not given, and what the
/// request says in a field of its own comes first.
fn add_keyword(name: Cow<'_, str>, raw: &str, variables: &mut Vec<(String, Value)>) -> Result<(), Refused> {
    if RESERVED.contains(&&*name) {
        return Err(Refused::Keywords);
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

/// The raw elements of an array.
fn elements(raw: &str) -> Result<Vec<&str>, Refused> {
    const NOT_AN_ARRAY: Refused = Refused::NotJson;
    let mut cursor = Cursor::new(raw);
    cursor.enter(b'[', "an array").map_err(|_| NOT_AN_ARRAY)?;
    let mut elements = Vec::new();
    while let Some(element) = cursor.element(elements.is_empty()).map_err(|_| NOT_AN_ARRAY)? {
        elements.push(element);
    }
    Ok(elements)
}
