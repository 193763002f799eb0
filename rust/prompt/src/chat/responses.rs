//! The chat that vLLM makes of a response's input.

use std::fmt::Write;

use super::content::text;
use super::message::own_message;
use super::{Members, Options, Request, elements};
use crate::template::ContentFormat;
use crate::{Body, Refused};

/// What the body of a response asks of a template that takes content in `format`.
///
/// # Errors
/// [`Refused`] for what is stored by the worker, for tools and items that are not functions, and as for a chat.
pub(crate) fn responses<'a>(body: &Body<'a>, format: ContentFormat) -> Result<Request<'a>, Refused> {
    let options = body.render_options();
    if options.previous_response_id.is_some() || options.previous_input_messages.is_some() {
        return Err(Refused::StoredConversation);
    }
    if options.truncation.is_some_and(|raw| raw != "\"disabled\"") {
        return Err(Refused::Truncated);
    }
    if options.kv_transfer_params.is_some_and(|raw| raw.contains("prompt_token_ids")) {
        return Err(Refused::ReusedIds);
    }
    if !matches!(body.prompt(), Err(_) | Ok(None)) {
        return Err(Refused::Option);
    }
    let mut messages: Vec<Message<'_>> = Vec::new();
    if let Some(raw) = body.instructions().filter(|raw| *raw != "\"\"") {
        messages.push(Message { content: Some(raw), ..Message::of("\"system\"") });
    }
    let input = body.input().map_err(|_| Refused::Messages)?;
    let mut continues = false;
    if input.starts_with('"') {
        messages.push(Message { content: Some(input), ..Message::of("\"user\"") });
    } else {
        for raw in elements(input)? {
            let item = Members::of(raw).map_err(|_| Refused::Item)?;
            continues = add(&item, &mut messages)?;
        }
    }
    let messages =
        messages.iter().map(|sent| own_message(&sent.to_json(), format)).collect::<Result<_, _>>()?;
    let effort = options.reasoning.map(|raw| Members::of(raw).map_err(|_| Refused::Option)).transpose()?;
    let options = Options {
        effort: effort.and_then(|reasoning| reasoning.given("effort")),
        documents: None,
        keywords: body.chat_template_kwargs(),
        prompts: !continues,
        continues,
    };
    Ok(Request {
        messages,
        tools: body.tools().filter(|_| super::has_tools(body)).map(functions).transpose()?,
        options,
    })
}

/// A message that is being put together; values are raw.
struct Message<'a> {
    role: &'a str,
    content: Option<&'a str>,
    reasoning: Option<&'a str>,
    name: Option<&'a str>,
    calls: Vec<Call<'a>>,
    answers: Option<&'a str>,
}

struct Call<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Message<'a> {
    fn of(role: &'a str) -> Message<'a> {
        Message { role, content: None, reasoning: None, name: None, calls: Vec::new(), answers: None }
    }

    /// The message as a chat has it.
    fn to_json(&self) -> String {
        let mut json = format!("{{\"role\":{}", self.role);
        let fields = [
            ("content", self.content),
            ("reasoning", self.reasoning),
            ("tool_call_id", self.answers),
            ("name", self.name),
        ];
        for (name, raw) in fields.into_iter().filter_map(|(name, raw)| Some((name, raw?))) {
            // Writing to a string does not fail.
            let _infallible = write!(json, ",\"{name}\":{raw}");
        }
        for (place, Call { id, name, arguments }) in self.calls.iter().enumerate() {
            json.push_str(if place == 0 { ",\"tool_calls\":[" } else { "," });
            let function = format!("{{\"name\":{name},\"arguments\":{arguments}}}");
            let _infallible = write!(json, "{{\"id\":{id},\"function\":{function},\"type\":\"function\"}}");
        }
        json.push_str(if self.calls.is_empty() { "}" } else { "]}" });
        json
    }
}

/// Adds one item of the input; true where the text is to be continued from it.
fn add<'a>(item: &Members<'a>, messages: &mut Vec<Message<'a>>) -> Result<bool, Refused> {
    let unfinished = match item.given("status") {
        None | Some("\"completed\"") => false,
        Some("\"in_progress\"" | "\"incomplete\"") => true,
        Some(_) => return Err(Refused::Item),
    };
    match item.raw("type") {
        Some("\"function_call\"") => {
            call(item, messages)?;
            Ok(false)
        }
        Some("\"function_call_output\"") => {
            output(item, messages)?;
            Ok(false)
        }
        Some("\"reasoning\"") => {
            let text = reasoning(item)?;
            let last = open(messages, |message| message.reasoning.is_none());
            last.reasoning = Some(text);
            Ok(unfinished)
        }
        None | Some("\"message\"") => {
            said(item, messages)?;
            Ok(unfinished)
        }
        Some(_) => Err(Refused::Item),
    }
}

/// The last message where it is the assistant's and `takes` says so, else a new one of the assistant's.
fn open<'m, 'a>(
    messages: &'m mut Vec<Message<'a>>,
    takes: impl Fn(&Message<'a>) -> bool,
) -> &'m mut Message<'a> {
    let fits = messages.last().is_some_and(|last| last.role == ASSISTANT && takes(last));
    if !fits {
        messages.push(Message::of(ASSISTANT));
    }
    let last = messages.len() - 1;
    &mut messages[last]
}

const ASSISTANT: &str = "\"assistant\"";

fn call<'a>(item: &Members<'a>, messages: &mut Vec<Message<'a>>) -> Result<(), Refused> {
    if item.given("namespace").is_some() {
        return Err(Refused::Item);
    }
    let field = |name| item.given(name).filter(|raw| raw.starts_with('"')).ok_or(Refused::Item);
    let call = Call { id: field("call_id")?, name: field("name")?, arguments: field("arguments")? };
    open(messages, |_| true).calls.push(call);
    Ok(())
}

fn output<'a>(item: &Members<'a>, messages: &mut Vec<Message<'a>>) -> Result<(), Refused> {
    let (output, id) = (item.given("output").ok_or(Refused::Item)?, item.given("call_id"));
    if id.is_none_or(|id| !id.starts_with('"')) {
        return Err(Refused::Item);
    }
    messages.push(Message { content: Some(output), answers: id, ..Message::of("\"tool\"") });
    Ok(())
}

/// The first text of a thought, else of its summary, else an empty one.
fn reasoning<'a>(item: &Members<'a>) -> Result<&'a str, Refused> {
    if item.given("encrypted_content").is_some_and(|raw| raw != "\"\"") {
        return Err(Refused::Item);
    }
    let summary = elements(item.given("summary").ok_or(Refused::Item)?)?;
    let content = item.given("content").map(elements).transpose()?.unwrap_or_default();
    match content.first().or(summary.first()) {
        None => Ok("\"\""),
        Some(raw) => Members::of(raw)?.given("text").filter(|raw| raw.starts_with('"')).ok_or(Refused::Item),
    }
}

fn said<'a>(item: &Members<'a>, messages: &mut Vec<Message<'a>>) -> Result<(), Refused> {
    let role = item.given("role").ok_or(Refused::Item)?;
    let content = item.given("content").ok_or(Refused::Item)?;
    if role == ASSISTANT {
        let text = if content.starts_with('"') { content } else { answer(item, content)? };
        open(messages, |message| message.content.is_none()).content = Some(text);
        return Ok(());
    }
    if !["\"user\"", "\"system\"", "\"developer\""].contains(&role) {
        return Err(Refused::Item);
    }
    messages.push(Message { content: Some(content), name: item.given("name"), ..Message::of(role) });
    Ok(())
}

/// The first text of an answer that comes back as the worker wrote it.
fn answer<'a>(item: &Members<'a>, content: &'a str) -> Result<&'a str, Refused> {
    if item.raw("type").is_none() {
        return Err(Refused::Item);
    }
    let mut texts = elements(content)?.into_iter().map(|raw| {
        let part = Members::of(raw)?;
        let is_text = part.raw("type") == Some("\"output_text\"");
        let raw = part.given("text").filter(|_| is_text).ok_or(Refused::Part)?;
        text(raw).map(|_| raw)
    });
    let first = texts.next().ok_or(Refused::Item)??;
    texts.collect::<Result<Vec<_>, _>>()?;
    Ok(first)
}

/// Tools, which a response writes without the object `function` of a chat.
fn functions(raw: &str) -> Result<minijinja::Value, Refused> {
    let mut chat = String::from("[");
    for (place, raw) in elements(raw)?.into_iter().enumerate() {
        let tool = Members::of(raw)?;
        if tool.raw("type") != Some("\"function\"") {
            return Err(Refused::Tools);
        }
        let separator = if place == 0 { "" } else { "," };
        let _infallible = write!(chat, "{separator}{{\"function\":{raw}}}");
    }
    chat.push(']');
    super::tools(&chat)
}
