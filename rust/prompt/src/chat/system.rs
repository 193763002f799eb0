//! System and developer messages of a whole conversation.

use minijinja::Value;

use crate::python;

/// Where a template has no role `developer`, developer messages become system messages, and all system
/// messages one in front. Without a developer message nothing changes.
pub(crate) fn without_developer(messages: Vec<Value>) -> Vec<Value> {
    if !messages.iter().any(|message| has_role(message, "developer")) {
        return messages;
    }
    let is_system = |message: &Value| has_role(message, "system") || has_role(message, "developer");
    if messages.iter().skip(1).any(is_system) {
        return merged(messages, is_system);
    }
    messages
        .into_iter()
        .map(|message| if is_system(&message) { as_system(&message) } else { message })
        .collect()
}

fn has_role(message: &Value, role: &str) -> bool {
    message.get_attr("role").is_ok_and(|found| found.as_str() == Some(role))
}

/// The same message with the role `system`, without the list of tools that a developer message has.
fn as_system(message: &Value) -> Value {
    let names = message.try_iter().into_iter().flatten().filter(|name| name.as_str() != Some("tools"));
    let members = names.filter_map(|name| {
        let is_role = name.as_str() == Some("role");
        let value = if is_role { Value::from("system") } else { message.get_item(&name).ok()? };
        Some((name, value))
    });
    python::map(members.collect::<Vec<_>>())
}

fn merged(messages: Vec<Value>, is_system: impl Fn(&Value) -> bool) -> Vec<Value> {
    let (system, others): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_system);
    let texts: Vec<_> = system.iter().map(content).filter(|text| !text.is_empty()).collect();
    let first = python::map([("role", Value::from("system")), ("content", Value::from(texts.join("\n\n")))]);
    [first].into_iter().chain(others).collect()
}

/// A message's text, whatever the form of its content.
fn content(message: &Value) -> String {
    let content = message.get_attr("content").unwrap_or_default();
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let parts = content.try_iter().into_iter().flatten();
    let texts: Vec<_> =
        parts.filter_map(|part| part.get_attr("text").ok()?.as_str().map(str::to_owned)).collect();
    texts.join("\n")
}
