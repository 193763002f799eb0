//! `continue_final_message`: a prompt that ends within its last message.

use minijinja::Value;

use crate::Refused;
use crate::python::{self, strip, strip_end};

/// Stands behind the text that is to be continued while the template renders it, as in Hugging Face's code: a template
/// that looks at the end of a message must see the same.
const TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// What the rendered text must contain for it to be cut.
#[derive(Debug)]
pub(crate) struct Continued {
    text: String,
}

impl Continued {
    /// Marks the end of the last of `messages`.
    ///
    /// # Errors
    /// [`Refused::FinalMessage`] where it has no text.
    pub(crate) fn mark(messages: &mut [Value]) -> Result<Continued, Refused> {
        let last = messages.last_mut().ok_or(Refused::Messages)?;
        let content = last.get_attr("content").unwrap_or_default();
        let (text, content) = match content.as_str() {
            Some(text) => (text.to_owned(), Value::from(format!("{text}{TAG}"))),
            None => marked_part(&content).ok_or(Refused::FinalMessage)?,
        };
        *last = with(last, "content", content);
        Ok(Continued { text })
    }

    /// `rendered` up to the mark.
    ///
    /// # Errors
    /// [`Refused::FinalMessage`] where the template did not print the message as it is.
    pub(crate) fn cut(&self, rendered: &str) -> Result<String, Refused> {
        let at = rendered.rfind(TAG.trim_end()).filter(|_| rendered.contains(strip(&self.text)));
        let at = at.ok_or(Refused::FinalMessage)?;
        let kept = &rendered[..at];
        // The template has trimmed the message where the tag lost its space.
        Ok(if rendered[at..].starts_with(TAG) { kept } else { strip_end(kept) }.to_owned())
    }
}

/// The last part with a text, marked.
fn marked_part(content: &Value) -> Option<(String, Value)> {
    let mut parts: Vec<Value> = content.try_iter().ok()?.collect();
    let has_text = |part: &Value| part.get_attr("text").is_ok_and(|text| text.as_str().is_some());
    let part = parts.iter_mut().rfind(|part| has_text(part))?;
    let text = part.get_attr("text").ok()?.as_str()?.to_owned();
    *part = with(part, "text", Value::from(format!("{text}{TAG}")));
    Some((text, python::list(parts)))
}

/// `object` with another value for `name`.
pub(super) fn with(object: &Value, name: &str, value: Value) -> Value {
    let names = object.try_iter().into_iter().flatten();
    python::map(names.map(|key| {
        let value = if key.as_str() == Some(name) {
            value.clone()
        } else {
            object.get_item(&key).unwrap_or_default()
        };
        (key, value)
    }))
}
