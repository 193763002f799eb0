//! The chat that vLLM makes of an Anthropic message.

use std::fmt::Write;

use minijinja::Value;

use super::content::text;
use super::{Members, Options, Request, elements, message};
use crate::template::{ChatTemplate, ContentFormat};
use crate::{Body, Refused, python};

/// How much a template is told to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort<'a> {
    /// What the request says, raw, or nothing.
    Given(Option<&'a str>),
    /// Not at all: the word for it depends on what the template does with it.
    Disabled,
}

impl<'a> Effort<'a> {
    /// What `body` says.
    ///
    /// # Errors
    /// [`Refused::Option`] for what the worker refuses.
    pub(crate) fn of(body: &Body<'a>) -> Result<Effort<'a>, Refused> {
        let options = body.render_options();
        let members =
            |raw: Option<&'a str>| raw.map(|raw| Members::of(raw).map_err(|_| Refused::Option)).transpose();
        let effort = members(options.output_config)?.and_then(|config| config.given("effort"));
        match members(options.thinking)?.map(|thinking| thinking.raw("type")) {
            None | Some(Some("\"enabled\"" | "\"adaptive\"")) => Ok(Effort::Given(effort)),
            Some(Some("\"disabled\"")) => Ok(Effort::Disabled),
            Some(_) => Err(Refused::Option),
        }
    }
}

/// What `body` asks of `template`, which takes content in `format`.
///
/// # Errors
/// [`Refused`] for media, for blocks that are not known here, and as for a chat.
pub(crate) fn anthropic<'a>(
    body: &Body<'a>,
    template: &ChatTemplate,
    format: ContentFormat,
    effort: Option<&'a str>,
) -> Result<Request<'a>, Refused> {
    let options = body.render_options();
    if options.kv_transfer_params.is_some_and(|raw| raw.contains("prompt_token_ids")) {
        return Err(Refused::ReusedIds);
    }
    let sent = elements(body.messages().map_err(|_| Refused::Messages)?)?;
    let sent = sent.into_iter().map(|raw| Members::of(raw).map_err(|_| Refused::Messages));
    let sent = sent.collect::<Result<Vec<_>, _>>()?;
    let is_system = |message: &Members<'_>| message.raw("role") == Some("\"system\"");
    let first = sent.iter().any(is_system) && template.wants_system_first().ok_or(Refused::Template)?;

    let mut chat = Chat { messages: Vec::new() };
    let mut system = body.system().map_or(Ok(String::new()), |raw| system_text(raw, true))?;
    if first {
        for message in sent.iter().filter(|message| is_system(message)) {
            system.push_str(&system_text(message.given("content").ok_or(Refused::Messages)?, false)?);
        }
    }
    chat.add_text("system", &system);
    for message in &sent {
        let content = message.given("content").ok_or(Refused::Messages)?;
        match message.raw("role") {
            Some("\"system\"") if first => {}
            Some("\"system\"") => chat.add_text("system", &system_text(content, false)?),
            Some(role @ ("\"user\"" | "\"assistant\"")) => chat.add(role, content)?,
            _ => return Err(Refused::Messages),
        }
    }
    let messages = chat.messages.iter().map(|raw| message(raw, format)).collect::<Result<_, _>>()?;
    let options = Options {
        effort,
        documents: None,
        keywords: body.chat_template_kwargs(),
        prompts: true,
        continues: false,
    };
    Ok(Request { messages, tools: body.tools().map(functions).transpose()?, options })
}

/// Claude Code's attribution line: a block that begins with it is left out.
const BILLING_HEADER: &str = "x-anthropic-billing-header";

/// The text of `raw`, the content of a system message, without quotes and still escaped. `field` is true for the
/// request's own `system`, which is kept whole where it is a string.
fn system_text(raw: &str, field: bool) -> Result<String, Refused> {
    if raw.starts_with('"') {
        let dropped = !field && text(raw)?.starts_with(BILLING_HEADER);
        return Ok(if dropped { String::new() } else { inner(raw).to_owned() });
    }
    let mut joined = String::new();
    for raw in elements(raw)? {
        let block = Members::of(raw)?;
        match block.raw("type") {
            Some("\"text\"") => {}
            Some("\"tool_addition\" | \"tool_removal\"") => return Err(Refused::Tools),
            _ => return Err(Refused::Part),
        }
        let Some(raw) = block.given("text") else { continue };
        if !text(raw)?.starts_with(BILLING_HEADER) {
            joined.push_str(inner(raw));
        }
    }
    Ok(joined)
}

fn inner(raw: &str) -> &str {
    raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default()
}

/// Messages of a chat, as JSON.
struct Chat {
    messages: Vec<String>,
}

/// What the blocks of one message come to.
#[derive(Default)]
struct Blocks<'a> {
    texts: Vec<&'a str>,
    reasoning: Option<String>,
    calls: String,
}

impl Chat {
    /// Adds a message whose text is escaped; none for an empty one.
    fn add_text(&mut self, role: &str, text: &str) {
        if !text.is_empty() {
            self.messages.push(format!("{{\"role\":\"{role}\",\"content\":\"{text}\"}}"));
        }
    }

    fn add(&mut self, role: &str, content: &str) -> Result<(), Refused> {
        if content.starts_with('"') {
            self.messages.push(format!("{{\"role\":{role},\"content\":{content}}}"));
            return Ok(());
        }
        let mut blocks = Blocks::default();
        for raw in elements(content)? {
            let block = Members::of(raw).map_err(|_| Refused::Part)?;
            match block.raw("type") {
                Some("\"tool_result\"") if role == "\"user\"" => self.result(&block)?,
                Some(kind) => blocks.add(kind, &block)?,
                None => return Err(Refused::Part),
            }
        }
        // A user's message of nothing but results is those results.
        if role == "\"assistant\"" || !blocks.texts.is_empty() {
            self.messages.push(blocks.to_json(role));
        }
        Ok(())
    }

    /// A tool's reply, which a chat has as a message of its own.
    fn result(&mut self, block: &Members<'_>) -> Result<(), Refused> {
        let content = match block.given("content") {
            None => String::new(),
            Some(raw) if raw.starts_with('"') => inner(raw).to_owned(),
            Some(raw) => result_text(raw)?,
        };
        let id = block.given("tool_use_id").unwrap_or("\"\"");
        self.messages.push(format!("{{\"role\":\"tool\",\"tool_call_id\":{id},\"content\":\"{content}\"}}"));
        Ok(())
    }
}

fn result_text(raw: &str) -> Result<String, Refused> {
    let mut texts = Vec::new();
    for raw in elements(raw)? {
        let part = Members::of(raw).map_err(|_| Refused::Part)?;
        match part.raw("type") {
            Some("\"text\"") => {
                let raw = part.raw("text").unwrap_or("\"\"");
                text(raw)?;
                texts.push(inner(raw));
            }
            Some("\"image\"") => return Err(Refused::Media),
            _ => return Err(Refused::Part),
        }
    }
    Ok(texts.join("\\n"))
}

impl<'a> Blocks<'a> {
    fn add(&mut self, kind: &str, block: &Members<'a>) -> Result<(), Refused> {
        match kind {
            "\"text\"" => {
                if let Some(raw) = block.given("text").filter(|raw| *raw != "\"\"") {
                    text(raw)?;
                    self.texts.push(raw);
                }
            }
            "\"thinking\"" => {
                if let Some(raw) = block.given("thinking") {
                    text(raw)?;
                    self.reasoning.get_or_insert_default().push_str(inner(raw));
                }
            }
            "\"redacted_thinking\"" => {}
            "\"tool_use\"" => self.call(block)?,
            "\"image\"" => return Err(Refused::Media),
            _ => return Err(Refused::Part),
        }
        Ok(())
    }

    fn call(&mut self, block: &Members<'a>) -> Result<(), Refused> {
        // Without an id the worker makes one of the time.
        let id = block.given("id").filter(|raw| *raw != "\"\"").ok_or(Refused::ToolCall)?;
        let name = block.given("name").unwrap_or("\"\"");
        let arguments = block.given("input").unwrap_or("{}");
        if !arguments.starts_with('{') {
            return Err(Refused::ToolCall);
        }
        let separator = if self.calls.is_empty() { "" } else { "," };
        let function = format!("{{\"name\":{name},\"arguments\":{arguments}}}");
        // Writing to a string does not fail.
        let _infallible =
            write!(self.calls, "{separator}{{\"id\":{id},\"type\":\"function\",\"function\":{function}}}");
        Ok(())
    }

    fn to_json(&self, role: &str) -> String {
        let mut json = format!("{{\"role\":{role}");
        if let Some(reasoning) = &self.reasoning {
            let _infallible = write!(json, ",\"reasoning\":\"{reasoning}\"");
        }
        if !self.calls.is_empty() {
            let _infallible = write!(json, ",\"tool_calls\":[{}]", self.calls);
        }
        match self.texts[..] {
            [] => {}
            [text] => {
                let _infallible = write!(json, ",\"content\":{text}");
            }
            _ => {
                let parts: Vec<_> =
                    self.texts.iter().map(|text| format!("{{\"type\":\"text\",\"text\":{text}}}")).collect();
                let _infallible = write!(json, ",\"content\":[{}]", parts.join(","));
            }
        }
        json.push('}');
        json
    }
}

/// Tools, whose schema has another name and always a type.
fn functions(raw: &str) -> Result<Value, Refused> {
    let tools = elements(raw)?.into_iter().map(|raw| {
        let tool = Members::of(raw)?;
        let schema = tool.given("input_schema").filter(|raw| raw.starts_with('{')).ok_or(Refused::Tools)?;
        let mut function = String::from("{");
        for name in ["name", "description", "strict", "defer_loading"] {
            if let Some(raw) = tool.given(name) {
                let _infallible = write!(function, "\"{name}\":{raw},");
            }
        }
        let _infallible = write!(function, "\"parameters\":{}}}", with_type(schema)?);
        super::tools::tool(&format!("{{\"function\":{function}}}"))
    });
    tools.collect::<Result<Vec<_>, _>>().map(python::list)
}

fn with_type(schema: &str) -> Result<String, Refused> {
    let members = Members::of(schema)?;
    if members.raw("type").is_some() {
        return Ok(schema.to_owned());
    }
    let separator = if members.is_empty() { "" } else { "," };
    Ok(format!("{}{separator}\"type\":\"object\"}}", &schema[..schema.len() - 1]))
}
