//! One message of a chat.

use std::borrow::Cow;

use minijinja::Value;

use super::content::{Content, text};
use super::{Members, elements};
use crate::json::to_value;
use crate::template::ContentFormat;
use crate::{Refused, python};

/// One message as its template is given it, whatever stands around it.
///
/// # Errors
/// [`Refused`] for media, and for what the worker refuses or reads in a way that is not followed here.
pub(crate) fn message(raw: &str, format: ContentFormat) -> Result<Value, Refused> {
    read(raw, format, Order::Validated)
}

/// The same for a message that the worker does not validate, because it is its own.
///
/// # Errors
/// As [`message`].
pub(super) fn own_message(raw: &str, format: ContentFormat) -> Result<Value, Refused> {
    read(raw, format, Order::Written)
}

/// In which order the members of a tool call are, as a template that prints it whole shows.
#[derive(Clone, Copy)]
enum Order {
    /// That of the worker's validation.
    Validated,
    /// As they stand.
    Written,
}

fn read(raw: &str, format: ContentFormat, order: Order) -> Result<Value, Refused> {
    let fields = Members::of(raw).map_err(|_| Refused::Messages)?;
    let role = text(fields.raw("role").unwrap_or_default())?;
    let mut content = Content::read(fields.given("content"))?;
    if role == "system" {
        content.strip_billing_header();
    }
    let content = match &*role {
        "tool" => Value::from(content.into_text(format)),
        _ => content.into_value(format)?,
    };
    let mut value = vec![("role", Value::from(role.clone())), ("content", content)];
    match &*role {
        "assistant" => assistant(&fields, order, &mut value)?,
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
    if role == "developer" {
        if fields.given("tools").is_some() {
            return Err(Refused::Messages);
        }
        value.push(("tools", Value::from(())));
    }
    Ok(python::map(value))
}

fn assistant(
    fields: &Members<'_>,
    order: Order,
    value: &mut Vec<(&'static str, Value)>,
) -> Result<(), Refused> {
    if let Some(raw) = fields.given("tool_calls") {
        let calls =
            elements(raw)?.into_iter().map(|raw| tool_call(raw, order)).collect::<Result<Vec<_>, _>>()?;
        if !calls.is_empty() {
            value.push(("tool_calls", python::list(calls)));
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
fn tool_call(raw: &str, order: Order) -> Result<Value, Refused> {
    let call = Members::of(raw)?;
    if call.raw("type").is_some_and(|kind| kind != "\"function\"") {
        return Err(Refused::ToolCall);
    }
    let function = Members::of(call.raw("function").unwrap_or_default())?;
    let arguments = arguments(function.given("arguments"))?;
    let mut function = ordered(function, order, &["arguments", "name"])?;
    match function.iter_mut().find(|(name, _)| name == "arguments") {
        Some(member) => member.1 = arguments,
        None => function.push(("arguments".to_owned(), arguments)),
    }
    let mut call = ordered(call, order, &["id", "function", "type"])?;
    for member in &mut call {
        if member.0 == "function" {
            member.1 = python::map(std::mem::take(&mut function));
        }
    }
    Ok(python::map(call))
}

/// The members of an object; the worker's validation puts the known ones in front.
fn ordered(members: Members<'_>, order: Order, known: &[&str]) -> Result<Vec<(String, Value)>, Refused> {
    let mut members: Vec<_> = members.into_iter().collect();
    if matches!(order, Order::Validated) {
        members.sort_by_key(|(name, _)| known.iter().position(|known| known == name).unwrap_or(known.len()));
    }
    members.into_iter().map(|(name, raw)| Ok((name.into_owned(), to_value(raw)?))).collect()
}

fn arguments(raw: Option<&str>) -> Result<Value, Refused> {
    let empty = Value::from_pairs::<_, String, Value>([]);
    let Some(raw) = raw else { return Ok(empty) };
    let json = if raw.starts_with('"') { text(raw)? } else { Cow::Borrowed(raw) };
    if json.is_empty() {
        return Ok(empty);
    }
    // What is no object, or not even JSON, becomes an empty one: templates need a mapping.
    match to_value(&json) {
        Ok(value) if json.trim_start().starts_with('{') => Ok(value),
        Ok(_) | Err(Refused::NotJson) => Ok(empty),
        Err(other) => Err(other),
    }
}
