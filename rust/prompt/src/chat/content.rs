//! The content of one message.

use std::borrow::Cow;

use minijinja::Value;

use super::{Members, elements};
use crate::json::{to_value, unescape};
use crate::template::ContentFormat;
use crate::{Refused, python};

/// Text parts of a message, in order.
pub(super) struct Content<'a> {
    parts: Vec<Part<'a>>,
}

struct Part<'a> {
    text: Cow<'a, str>,
    /// A marker that a list of parts keeps beside the text.
    cache_control: Option<&'a str>,
}

/// How Claude Code's attribution line begins. It differs from request to request, and the worker drops it.
const BILLING_HEADER: &str = "x-anthropic-billing-header";

impl<'a> Content<'a> {
    /// Reads `raw`, a message's `content`; nothing where it is absent or null.
    ///
    /// # Errors
    /// [`Refused`] for media and for parts that are not text.
    pub(super) fn read(raw: Option<&'a str>) -> Result<Content<'a>, Refused> {
        let parts = match raw {
            None => Vec::new(),
            Some(raw) if raw.starts_with('"') => vec![Part { text: text(raw)?, cache_control: None }],
            Some(raw) => {
                let parts = elements(raw)?.into_iter().map(part);
                parts.filter_map(Result::transpose).collect::<Result<_, _>>()?
            }
        };
        Ok(Content { parts })
    }

    /// Takes the billing header out of a system message.
    pub(super) fn strip_billing_header(&mut self) {
        self.parts.retain_mut(|part| {
            if !part.text.starts_with(BILLING_HEADER) {
                return true;
            }
            let rest = part.text.split_once('\n').map_or("", |(_, rest)| rest).to_owned();
            part.text = Cow::Owned(rest);
            !part.text.is_empty()
        });
    }

    /// The content as a template takes it.
    pub(super) fn into_value(self, format: ContentFormat) -> Result<Value, Refused> {
        match format {
            ContentFormat::String => {
                // Where parts are strings, vLLM passes over empty ones.
                let mut texts: Vec<_> = self.parts.into_iter().map(|part| part.text).collect();
                texts.retain(|text| !text.is_empty());
                Ok(Value::from(join(texts, "\n")))
            }
            ContentFormat::OpenAi => {
                let parts = self.parts.into_iter().map(|part| {
                    let mut fields = vec![("type", Value::from("text")), ("text", Value::from(part.text))];
                    if let Some(raw) = part.cache_control {
                        fields.push(("cache_control", to_value(raw)?));
                    }
                    Ok(python::map(fields))
                });
                parts.collect::<Result<Vec<_>, _>>().map(python::list)
            }
        }
    }

    /// The content as one string, whatever the template's format: that of a tool's reply, and of system
    /// messages that are merged.
    pub(super) fn into_text(self, format: ContentFormat) -> Cow<'a, str> {
        let mut texts: Vec<_> = self.parts.into_iter().map(|part| part.text).collect();
        if format == ContentFormat::String {
            texts.retain(|text| !text.is_empty());
        }
        join(texts, "\n")
    }
}

/// Whether a part has, or refers to, an image, a sound or a film.
pub(super) fn is_media(part: &Members<'_>) -> bool {
    const KINDS: [&str; 8] = [
        "image_url",
        "input_image",
        "image_embeds",
        "audio_url",
        "input_audio",
        "audio_embeds",
        "video_url",
        "video_embeds",
    ];
    let is_kind = |raw: &str| KINDS.contains(&raw.trim_matches('"'));
    part.raw("type").is_some_and(is_kind) || KINDS.iter().any(|kind| part.raw(kind).is_some())
}

/// One part; `None` for a text that is null, which vLLM passes over.
fn part(raw: &str) -> Result<Option<Part<'_>>, Refused> {
    if raw.starts_with('"') {
        return Ok(Some(Part { text: text(raw)?, cache_control: None }));
    }
    let members = Members::of(raw)?;
    if is_media(&members) {
        return Err(Refused::Media);
    }
    let field = match members.raw("type") {
        Some("\"text\"" | "\"input_text\"" | "\"output_text\"") => "text",
        Some("\"refusal\"") => "refusal",
        Some("\"thinking\"") => "thinking",
        _ => return Err(Refused::Part),
    };
    let known = ["type", field, "cache_control"];
    if members.0.iter().any(|(name, _)| !known.contains(&&**name)) {
        return Err(Refused::Part);
    }
    match members.given(field) {
        Some(raw) => Ok(Some(Part { text: text(raw)?, cache_control: members.raw("cache_control") })),
        None if matches!(members.raw("type"), Some("\"text\"" | "\"refusal\"")) => Ok(None),
        None => Err(Refused::Part),
    }
}

/// The text of a JSON string.
pub(super) fn text(raw: &str) -> Result<Cow<'_, str>, Refused> {
    unescape(raw).ok_or(Refused::Value)
}

/// One text is passed on without a copy.
pub(super) fn join<'a>(mut texts: Vec<Cow<'a, str>>, separator: &str) -> Cow<'a, str> {
    if texts.len() <= 1 { texts.pop().unwrap_or_default() } else { Cow::Owned(texts.join(separator)) }
}
