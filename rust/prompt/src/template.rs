//! Chat templates, rendered as Hugging Face renders them.

mod dumps;
mod float;
mod format;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::Refused;
pub use format::ContentFormat;

/// One compiled chat template.
#[derive(Debug)]
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    content_format: ContentFormat,
    knows_developer: bool,
}

const NAME: &str = "chat";

impl ChatTemplate {
    /// Compiles `source`.
    ///
    /// # Errors
    /// What is wrong with the template.
    pub(crate) fn compile(source: &str) -> Result<ChatTemplate, String> {
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let source = plain_generation_blocks(&source);
        let knows_developer = source.contains("\"developer\"") || source.contains("'developer'");
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.map_err(|error| error.to_string())?;
        let content_format = format::detect(&source, &syntax);
        let mut environment = environment(syntax);
        environment.add_template_owned(NAME, source).map_err(|error| error.to_string())?;
        Ok(ChatTemplate { environment, content_format, knows_developer })
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

    /// The text for `context`.
    ///
    /// # Errors
    /// [`Refused`] where the template raises, or uses what is not the same here as in Python.
    pub(crate) fn render(&self, context: Value) -> Result<String, Refused> {
        // The error's text may quote the prompt: it goes no further.
        let failed = |_| Refused::Template;
        self.environment.get_template(NAME).and_then(|template| template.render(context)).map_err(failed)
    }
}

/// What Hugging Face's environment has. `strftime_now` is not in it: the date would be the worker's.
fn environment(syntax: SyntaxConfig) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.set_formatter(write_expression);
    environment.add_filter("tojson", dumps::tojson);
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment
}

/// Prints `{{ value }}`; what Python prints otherwise is an error, so that the text is exact or refused.
fn write_expression(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Number if !value.is_integer() => {
            let float = f64::try_from(value.clone())?;
            if !float.is_finite() {
                return Err(Error::new(ErrorKind::InvalidOperation, "a float that is not finite"));
            }
            out.write_str(&float::python_repr(float)).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// `{% generation %}` marks what an assistant wrote and prints it unchanged; minijinja lacks the tag.
fn plain_generation_blocks(source: &str) -> String {
    let mut plain = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, tag)) = rest.split_once("{%") {
        plain.push_str(before);
        plain.push_str("{%");
        rest = tag;
        let Some((inside, _)) = tag.split_once("%}") else { break };
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
        assert!(render("{{ raise_exception('no') }}").is_err());
        assert!(render("{{ strftime_now('%Y') }}").is_err());
        assert!(ChatTemplate::compile("{% if %}").is_err());
    }
}
