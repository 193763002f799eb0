//! `tools` as the worker's validation rewrites them.

use minijinja::Value;

use super::{Members, elements};
use crate::json::{string, to_value};
use crate::{Refused, python};

/// The tools of `raw`: known fields only, in a fixed order, absent ones as null. What is inside
/// `parameters` stays as the client wrote it.
pub(crate) fn tools(raw: &str) -> Result<Value, Refused> {
    let tools = elements(raw)?;
    if tools.is_empty() {
        return Err(Refused::Tools);
    }
    tools.into_iter().map(tool).collect::<Result<Vec<_>, _>>().map(python::list)
}

pub(super) fn tool(raw: &str) -> Result<Value, Refused> {
    let tool = Members::of(raw)?;
    if tool.raw("type").is_some_and(|kind| kind != "\"function\"") {
        return Err(Refused::Tools);
    }
    let function = Members::of(tool.raw("function").unwrap_or_default())?;
    let deferred = tool.given("defer_loading");
    let mut fields = vec![("name", string(function.raw("name").unwrap_or_default())?)];
    fields.push(("description", function.given("description").map_or(Ok(Value::from(())), string)?));
    let parameters = function.given("parameters");
    if parameters.is_some_and(|raw| !raw.starts_with('{')) {
        return Err(Refused::Tools);
    }
    fields.push(("parameters", parameters.map_or(Ok(Value::from(())), to_value)?));
    for (name, raw) in [
        ("strict", function.given("strict")),
        ("defer_loading", function.given("defer_loading").or(deferred)),
    ] {
        if let Some(raw) = raw {
            fields.push((name, boolean(raw)?));
        }
    }
    let mut tool = vec![("type", Value::from("function")), ("function", python::map(fields))];
    if let Some(raw) = deferred {
        tool.push(("defer_loading", boolean(raw)?));
    }
    Ok(python::map(tool))
}

fn boolean(raw: &str) -> Result<Value, Refused> {
    match raw {
        "true" => Ok(Value::from(true)),
        "false" => Ok(Value::from(false)),
        _ => Err(Refused::Tools),
    }
}
