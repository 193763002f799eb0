//! Chat templates, rendered as Hugging Face renders them.

mod clock;
mod depth;
mod dumps;
mod filters;
mod format;

use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State};

use crate::panics::contained;
use crate::python::{UNLIKE_PYTHON, odd_float, write_repr};
use crate::{Refused, python};
pub use format::ContentFormat;

/// One compiled chat template.
#[derive(Debug)]
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    content_format: ContentFormat,
    knows_developer: bool,
    mentions_content: bool,
    wants_system_first: Option<bool>,
    nests: bool,
}

const NAME: &str = "chat";

/// What one rendering may spend: an instruction costs 1, and so do 64 bytes that are made.
///
/// Enough for a chat of some 50 MB, and a bound for what a hostile template, or a template that is quadratic in
/// the messages, does with a hostile body: about a second, and 256 MB.
const FUEL: u64 = 1 << 22;

/// The same for a template whose values may nest in one another without end. Each instruction adds a level at most.
const FUEL_WHERE_NESTING: u64 = 1 << 16;
/// To drop, compare or walk a level takes up to 2.4 KB of stack without optimisation.
const STACK_PER_LEVEL: usize = 4 << 10;
const STACK_WHERE_NESTING: usize = FUEL_WHERE_NESTING as usize * STACK_PER_LEVEL;

/// The longest template of a model is a tenth of it.
const LONGEST_SOURCE: usize = 256 << 10;
/// One `-` makes the parser, and one `{% elif x %}` the compiler, call itself; measured: 600 bytes for a byte.
const STACK_PER_BYTE: usize = 2 << 10;

impl ChatTemplate {
    /// Compiles `source`.
    ///
    /// # Errors
    /// What is wrong with the template.
    pub(crate) fn compile(source: &str) -> Result<ChatTemplate, String> {
        if source.len() > LONGEST_SOURCE {
            return Err(format!("it has more than {LONGEST_SOURCE} bytes"));
        }
        on_deep_stack(source, || ChatTemplate::compile_here(source)).unwrap_or_else(Err)
    }

    fn compile_here(source: &str) -> Result<ChatTemplate, String> {
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let plain = plain_generation_blocks(&source);
        let (marks_generation, source) = (plain != source, plain);
        let knows_developer = source.contains("\"developer\"") || source.contains("'developer'");
        let mentions_content = source.contains("content");
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.map_err(|error| error.to_string())?;
        let content_format = format::detect(&source, &syntax);
        let nests = parse(&source, NAME, syntax.clone()).is_ok_and(|root| !depth::is_bounded(&root));
        let mut environment = environment(syntax);
        if nests {
            environment.set_fuel(Some(FUEL_WHERE_NESTING));
        }
        if escapes(&source) {
            environment.remove_filter("safe");
        }
        environment.add_template_owned(NAME, source).map_err(|error| error.to_string())?;
        let trial = || wants_system_first(environment.clone());
        let wants_system_first = match (marks_generation, nests) {
            (true, _) => Some(true),
            (false, false) => trial(),
            (false, true) => on_stack(STACK_WHERE_NESTING, trial)?,
        };
        Ok(ChatTemplate {
            environment,
            content_format,
            knows_developer,
            mentions_content,
            wants_system_first,
            nests,
        })
    }

    /// How the template takes the content of messages.
    pub(crate) fn content_format(&self) -> ContentFormat {
        self.content_format
    }

    /// Whether the template has a role `developer`.
    pub(crate) fn knows_developer(&self) -> bool {
        self.knows_developer
    }

    /// What the template is rendered in.
    pub(crate) fn environment(&self) -> &Environment<'static> {
        &self.environment
    }

    /// Its source as it was compiled.
    pub(crate) fn source(&self) -> Option<String> {
        self.environment.get_template(NAME).ok().map(|template| template.source().to_owned())
    }

    /// Whether the template names the content of messages, without which none can be continued.
    pub(crate) fn mentions_content(&self) -> bool {
        self.mentions_content
    }

    /// Whether vLLM takes the template to refuse a system message that is not the first: it then moves those of an
    /// Anthropic message to the front. `None` where its trial cannot be repeated here.
    pub(crate) fn wants_system_first(&self) -> Option<bool> {
        self.wants_system_first
    }

    /// The text for `context`.
    ///
    /// # Errors
    /// [`Refused`] where the template raises, or uses what is not the same here as in Python.
    pub(crate) fn render(&self, context: Value) -> Result<String, Refused> {
        let render = || {
            contained(Refused::Template, || {
                let template = self.environment.get_template(NAME);
                template.and_then(|template| template.render(context)).map_err(|error| refusal(&error))
            })
        };
        let text = match self.nests {
            false => render()?,
            true => on_stack(STACK_WHERE_NESTING, render).unwrap_or(Err(Refused::Template))?,
        };
        if text.contains(UNLIKE_PYTHON) { Err(Refused::Template) } else { Ok(text) }
    }
}

/// Whether the filter `safe` may do more than mark a text: what is safe escapes what is added to it.
fn escapes(source: &str) -> bool {
    let mut sums = source.split('+').map(str::trim);
    let is_marked =
        |rest: &str| rest.trim_start().strip_prefix("safe").is_some_and(|rest| !continues_name(rest));
    let adds_to = |filter: &str| {
        let rest = filter.trim_start().trim_start_matches("safe").trim_start();
        rest.starts_with(['+', '%', '*', '.', '|', '['])
    };
    let marked: Vec<&str> = source.split('|').skip(1).filter(|rest| is_marked(rest)).collect();
    // A variable that is set to one may be added to later.
    let variables = source.split("{%").filter(|tag| {
        let tag = tag.split("%}").next().unwrap_or_default();
        tag.trim_start_matches('-').trim_start().starts_with("set ") && tag.split('|').skip(1).any(is_marked)
    });
    let names: Vec<&str> =
        variables.filter_map(|tag| tag.split("set ").nth(1)?.split('=').next()).map(str::trim).collect();
    let added = |term: &str| names.iter().any(|name| term.ends_with(name) || term.starts_with(name));
    marked.iter().any(|filter| adds_to(filter)) || sums.any(added)
}

fn continues_name(rest: &str) -> bool {
    rest.starts_with(|char: char| char.is_alphanumeric() || char == '_')
}

/// vLLM's trial: a conversation with a system message in the middle, in an environment without Hugging Face's
/// functions, so that a template that calls one fails in it.
fn wants_system_first(mut environment: Environment<'static>) -> Option<bool> {
    environment.remove_global("raise_exception");
    environment.remove_global("strftime_now");
    let message = |role: &str| python::map([("role", Value::from(role)), ("content", Value::from("t"))]);
    let messages = ["system", "user", "system", "user"].map(message).to_vec();
    let context =
        python::map([("messages", python::list(messages)), ("add_generation_prompt", Value::from(false))]);
    match environment.get_template(NAME).and_then(|template| template.render(context)) {
        Ok(_) => Some(false),
        Err(error) if matches!(error.kind(), ErrorKind::UnknownFunction | ErrorKind::UndefinedError) => {
            Some(true)
        }
        Err(_) => None,
    }
}

/// Why a rendering failed. The error's text may quote the prompt: it goes no further.
fn refusal(error: &Error) -> Refused {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref::<Error>().and_then(Error::detail) {
            Some(RAISED) => return Refused::Raised,
            Some(clock::CLOCK) => return Refused::Clock,
            _ => cause = error.source(),
        }
    }
    Refused::Template
}

const RAISED: &str = "the template raises an error";

/// Runs `parse`, which reads `source`, on a thread of its own.
///
/// A parser follows brackets and chains of operators by calling itself: the stack grows with the source, so that
/// no text of a model's folder can overflow it.
///
/// # Errors
/// Where there is no thread, or it panics.
pub(crate) fn on_deep_stack<T: Send>(source: &str, parse: impl FnOnce() -> T + Send) -> Result<T, String> {
    on_stack((1 << 20) + source.len() * STACK_PER_BYTE, parse)
}

/// Runs `work` on a thread with a stack of `bytes`, of which only what is used takes memory.
fn on_stack<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    let thread = std::thread::Builder::new().stack_size(bytes);
    std::thread::scope(|scope| {
        let working = thread.spawn_scoped(scope, work).map_err(|error| error.to_string())?;
        working.join().map_err(|_| "it cannot be read".to_owned())
    })
}

/// What Hugging Face's environment has.
fn environment(syntax: SyntaxConfig) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax);
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(write_expression);
    filters::add(&mut environment);
    environment.add_filter("tojson", dumps::tojson);
    environment.add_function("strftime_now", clock::strftime_now);
    environment.add_function("raise_exception", |_message: &Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, RAISED))
    });
    environment
}

/// Prints `{{ value }}`.
fn write_expression(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let plain = value.is_integer() || odd_float(value).is_some();
    match value.kind() {
        ValueKind::Number | ValueKind::Seq | ValueKind::Map if !plain => {
            write_repr(out, value).map_err(Error::from)
        }
        ValueKind::Iterable | ValueKind::Plain if !plain => {
            Err(unlike_python("something that Python prints otherwise"))
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

fn unlike_python(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

/// Characters of a tag without arguments, spaces included.
const LONGEST_TAG: usize = 64;

/// `{% generation %}` marks what an assistant wrote and prints it unchanged; minijinja lacks the tag.
fn plain_generation_blocks(source: &str) -> String {
    let mut plain = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, tag)) = rest.split_once("{%") {
        plain.push_str(before);
        plain.push_str("{%");
        rest = tag;
        let near = tag.char_indices().nth(LONGEST_TAG).map_or(tag, |(end, _)| &tag[..end]);
        let Some((inside, _)) = near.split_once("%}") else { continue };
        let word = inside.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
        let replacement = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => continue,
        };
        plain.push_str(&inside.replace(word, replacement));
        rest = &tag[inside.len()..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String, Refused> {
        let context = Value::from_pairs([("none", Value::from(())), ("x", Value::from(1e22))]);
        ChatTemplate::compile(source).unwrap().render(context)
    }

    #[test]
    fn renders_like_hugging_face() {
        assert_eq!(render("{%- generation -%} a {% endgeneration %}b").as_deref(), Ok("a b"));
        assert_eq!(
            render("{{ x }} {{ none is iterable }} {{ none }} {{ true }}").as_deref(),
            Ok("1e+22 False None True")
        );
        assert_eq!(render("a\r\n  {% if true %}\nb{% endif %}\n").as_deref(), Ok("a\nb"));
        assert_eq!(
            render("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}")
                .as_deref(),
            Ok("1")
        );
    }

    #[test]
    fn refuses_what_is_not_exact() {
        assert_eq!(render("{{ raise_exception('no') }}"), Err(Refused::Raised));
        assert_eq!(render("{{ x | title }}{{ none.items() }}"), Err(Refused::Template));
        assert_eq!(render("{{ strftime_now('%H') }}"), Err(Refused::Clock));
        assert!(ChatTemplate::compile("{% if %}").is_err());
    }
}
