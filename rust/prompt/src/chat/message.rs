//! The messages of a chat.

use std::borrow::Cow;

use minijinja::Value;

use super::content::{Content, join, text};
use super::{Members, elements};
use crate::Refused;
use crate::json::to_value;
use crate::template::{ChatTemplate, ContentFormat};

/// The messages of `raw` as values.
pub(super) fn messages(raw: &str, template: &ChatTemplate, format: ContentFormat) -> Result<Value, Refused> {
    let messages = elements(raw)?.into_iter().map(Message::read).collect::<Result<Vec<_>, _>>()?;
    if messages.is_empty() {
        return Err(Refused::new("there are no messages"));
    }
    let replace = !template.knows_developer() && messages.iter().any(|message| message.role == "developer");
    let messages = if replace { without_developer(messages, format)? } else { messages };
    messages
        .into_iter()
        .map(|message| message.into_value(format))
        .collect::<Result<Vec<_>, _>>()
        .map(Value::from)
}

struct Message<'a> {
    role: Cow<'a, str>,
    body: Text<'a>,
    fields: Members<'a>,
}

/// What a message says: as it was sent, or merged from several.
enum Text<'a> {
    Sent(Content<'a>),
    Merged(String),
}

impl<'a> Message<'a> {
    fn read(raw: &'a str) -> Result<Message<'a>, Refused> {
        let fields = Members::of(raw)?;
        let role = text(fields.raw("role").unwrap_or_default())?;
        let mut content = Content::read(fields.given("content"))?;
        if role == "system" {
            content.strip_billing_header();
        }
        Ok(Message { role, body: Text::Sent(content), fields })
    }

    fn into_value(self, format: ContentFormat) -> Result<Value, Refused> {
        let is_tool = self.role == "tool";
        let content = match self.body {
            Text::Sent(content) if is_tool => Value::from(content.into_text(format)),
            Text::Sent(content) => content.into_value(format)?,
            Text::Merged(text) => Value::from(text),
        };
        let mut value = vec![("role", Value::from(self.role.clone())), ("content", content)];
        let fields = &self.fields;
        match &*self.role {
            "assistant" => assistant(fields, &mut value)?,
            "tool" => {
                if let Some(raw) = fields.raw("tool_call_id") {
                    value.push(("tool_call_id", to_value(raw)?));
                }
            }
            _ => {}
        }
        for name in ["name", "task"] {
            if let Some(raw) = fields.raw(name).filter(|raw| raw.starts_with('"')) {
                value.push((name, Value::from(text(raw)?)));
            }
        }
        if self.role == "developer" {
            if fields.given("tools").is_some() {
                return Err(Refused::new("a developer message brings tools"));
            }
            value.push(("tools", Value::from(())));
        }
        Ok(Value::from_pairs(value))
    }
}

fn assistant(fields: &Members<'_>, value: &mut Vec<(&'static str, Value)>) -> Result<(), Refused> {
    if let Some(raw) = fields.given("tool_calls") {
        let calls = elements(raw)?.into_iter().map(tool_call).collect::<Result<Vec<_>, _>>()?;
        if !calls.is_empty() {
            value.push(("tool_calls", Value::from(calls)));
        }
    }
    if let Some(raw) = fields.given("reasoning").or(fields.given("reasoning_content")) {
        let reasoning = Value::from(text(raw)?);
        value.push(("reasoning", reasoning.clone()));
        value.push(("reasoning_content", reasoning));
    }
    Ok(())
}

/// One call: known fields first, the arguments as an object instead of JSON in a string.
fn tool_call(raw: &str) -> Result<Value, Refused> {
    let call = Members::of(raw)?;
    if call.raw("type").is_some_and(|kind| kind != "\"function\"") {
        return Err(Refused::new("a tool call is not of a function"));
    }
    let function = Members::of(call.raw("function").unwrap_or_default())?;
    let arguments = arguments(function.given("arguments"))?;
    let mut function = ordered(function, &["arguments", "name"])?;
    match function.iter_mut().find(|(name, _)| name == "arguments") {
        Some(member) => member.1 = arguments,
        None => function.push(("arguments".to_owned(), arguments)),
    }
    let mut call = ordered(call, &["id", "function", "type"])?;
    for member in &mut call {
        if member.0 == "function" {
            member.1 = Value::from_pairs(std::mem::take(&mut function));
        }
    }
    Ok(Value::from_pairs(call))
}

/// The members of an object with the known ones in front, as the worker's validation orders them.
fn ordered(members: Members<'_>, known: &[&str]) -> Result<Vec<(String, Value)>, Refused> {
    let mut members: Vec<_> = members.into_iter().collect();
    members.sort_by_key(|(name, _)| known.iter().position(|known| known == name).unwrap_or(known.len()));
    members.into_iter().map(|(name, raw)| Ok((name.into_owned(), to_value(raw)?))).collect()
}

fn arguments(raw: Option<&str>) -> Result<Value, Refused> {
    let empty = Value::from_pairs::<_, String, Value>([]);
    let Some(raw) = raw else { return Ok(empty) };
    let json = if raw.starts_with('"') { text(raw)? } else { Cow::Borrowed(raw) };
    if json.is_empty() {
        return Ok(empty);
    }
    let value = to_value(&json)?;
    // What is JSON but no object becomes an empty one: templates need a mapping.
    Ok(if json.trim_start().starts_with('{') { value } else { empty })
}

/// Developer messages become system messages, and all system messages one in front.
fn without_developer(messages: Vec<Message<'_>>, format: ContentFormat) -> Result<Vec<Message<'_>>, Refused> {
    let is_system = |message: &Message<'_>| message.role == "system" || message.role == "developer";
    let merges = messages.iter().skip(1).any(is_system);
    let (mut system, mut others) = (Vec::new(), Vec::new());
    for mut message in messages {
        if !is_system(&message) {
            others.push(message);
            continue;
        }
        message.role = Cow::Borrowed("system");
        system.push(message);
    }
    if !merges {
        system.extend(others);
        return Ok(system);
    }
    let mut texts = Vec::new();
    for message in system {
        if let Text::Sent(content) = message.body {
            texts.push(content.into_text(format));
        }
    }
    texts.retain(|text| !text.is_empty());
    let merged = Text::Merged(join(texts, "\n\n").into_owned());
    let mut all = vec![Message { role: Cow::Borrowed("system"), body: merged, fields: Members(Vec::new()) }];
    all.extend(others);
    Ok(all)
}
