//! One message of a chat.

use std::borrow::Cow;

use minijinja::Value;

use super::content::{Content, text};
use super::{Members, elements};
use crate::Refused;
use crate::json::to_value;
use crate::template::ContentFormat;

/// One message as its template is given it, whatever stands around it.
///
/// # Errors
/// [`Refused`] for media, and for what the worker refuses or reads in a way that is not followed here.
pub(crate) fn message(raw: &str, format: ContentFormat) -> Result<Value, Refused> {
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
        "assistant" => assistant(&fields, &mut value)?,
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
    Ok(Value::from_pairs(value))
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
        return Err(Refused::ToolCall);
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
