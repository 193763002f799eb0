//! A chat with media: exact up to the first, and told apart by what the media are from there on.

use minijinja::Value;
use warmroute_core::block::{BlockHasher, Namespace};

use super::content::{is_media, text};
use super::{Members, Options, Request, elements, has_tools, message, tools};
use crate::template::ContentFormat;
use crate::{Body, Refused, python};

/// Stands in a text in the place of a part with media. It is no character.
pub(crate) const MARK: &str = "\u{fdd1}";

/// A chat whose media have been taken out.
pub(crate) struct WithoutMedia {
    /// Messages as they were sent, with a text of [`MARK`] for each part with media.
    messages: Vec<String>,
    /// What the media are, in order.
    media: Vec<Media>,
    format: ContentFormat,
}

struct Media {
    /// As the worker names it to a template.
    kind: &'static str,
    key: u64,
}

impl WithoutMedia {
    /// The chat of `body`, for a template that takes content in `format`.
    ///
    /// # Errors
    /// [`Refused::Messages`] for messages that are none, [`Refused::Media`] for media without an identity, and where
    /// anything in the body could be taken for a mark.
    pub(crate) fn of(body: &Body<'_>, format: ContentFormat) -> Result<WithoutMedia, Refused> {
        if has_mark(&String::from_utf8_lossy(body.raw())) {
            return Err(Refused::Media);
        }
        let mut media = Vec::new();
        let sent = elements(body.messages().map_err(|_| Refused::Messages)?)?;
        let messages =
            sent.into_iter().map(|raw| marked(raw, format, &mut media)).collect::<Result<_, _>>()?;
        Ok(WithoutMedia { messages, media, format })
    }

    /// Two ids for each of the media, in order. Ids of tokens are smaller.
    pub(crate) fn keys(&self) -> impl Iterator<Item = [u32; 2]> + '_ {
        let half = |bits: u64| 1 << 31 | u32::try_from(bits & 0x7fff_ffff).unwrap_or_default();
        self.media.iter().map(move |media| [half(media.key >> 32), half(media.key)])
    }

    /// The chat with `stand_in` for the text of each mark.
    ///
    /// # Errors
    /// As those of a chat.
    pub(crate) fn with_text<'a>(&self, body: &Body<'a>, stand_in: &str) -> Result<Request<'a>, Refused> {
        let read = |raw: &String| message(&raw.replace(MARK, stand_in), self.format);
        self.request(body, self.messages.iter().map(read).collect::<Result<_, _>>()?)
    }

    /// The chat as the worker's template is given it; nothing where the worker puts words of its own into the texts.
    ///
    /// # Errors
    /// As those of a chat.
    pub(crate) fn as_parts<'a>(&self, body: &Body<'a>) -> Result<Option<Request<'a>>, Refused> {
        if self.format == ContentFormat::String {
            return Ok(None);
        }
        let mut kinds = self.media.iter().map(|media| media.kind);
        let mut read = |raw: &String| Ok(with_kinds(&message(raw, self.format)?, &mut kinds));
        let messages = self.messages.iter().map(&mut read).collect::<Result<_, Refused>>()?;
        self.request(body, messages).map(Some)
    }

    fn request<'a>(&self, body: &Body<'a>, messages: Vec<Value>) -> Result<Request<'a>, Refused> {
        let tools = if has_tools(body) { body.tools().map(tools).transpose()? } else { None };
        Ok(Request { messages, tools, options: Options::of(body)? })
    }
}

/// Whether a string in `raw` may have a [`MARK`], as it is or escaped.
fn has_mark(raw: &str) -> bool {
    let is_escape = |(at, _)| raw.get(at + 2..at + 6).is_some_and(|hex| hex.eq_ignore_ascii_case("fdd1"));
    raw.contains(MARK) || raw.match_indices("\\u").any(is_escape)
}

/// `raw` with marks for its media, which are added to `media`.
fn marked(raw: &str, format: ContentFormat, media: &mut Vec<Media>) -> Result<String, Refused> {
    let fields = Members::of(raw).map_err(|_| Refused::Messages)?;
    let Some(content) = fields.given("content").filter(|content| content.starts_with('[')) else {
        return Ok(raw.to_owned());
    };
    let before = media.len();
    let mut parts = Vec::new();
    for raw in elements(content)? {
        match Members::of(raw).ok().filter(is_media) {
            None => parts.push(raw.to_owned()),
            Some(part) => {
                media.push(Media::of(&part)?);
                parts.push(format!("{{\"type\":\"text\",\"text\":\"{MARK}\"}}"));
            }
        }
    }
    if media.len() == before {
        return Ok(raw.to_owned());
    }
    if format == ContentFormat::String {
        // There the worker puts what stands for media before a message's text.
        parts.sort_by_key(|part| !part.contains(MARK));
    }
    let members = fields.into_iter().map(|(name, raw)| {
        let name = serde_json::Value::from(&*name);
        if name == "content" { format!("{name}:[{}]", parts.join(",")) } else { format!("{name}:{raw}") }
    });
    Ok(format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
}

impl Media {
    fn of(part: &Members<'_>) -> Result<Media, Refused> {
        let kinds = [("image", "image"), ("audio", "audio"), ("video", "video")];
        let names = |kind: &str| {
            part.0.iter().any(|(name, _)| name.contains(kind))
                || part.raw("type").is_some_and(|raw| raw.contains(kind))
        };
        let (_, kind) = kinds.into_iter().find(|(word, _)| names(word)).ok_or(Refused::Media)?;
        // A name is no URL, be their texts alike.
        let (what, given) = match part.given("uuid") {
            Some(raw) => ("name", raw),
            None => {
                let found = part.0.iter().find(|(name, raw)| *name != "type" && *raw != "null");
                ("content", found.ok_or(Refused::Media)?.1)
            }
        };
        // The text of a URL, however it is escaped; else the object as it was sent.
        let url =
            if given.starts_with('{') { Members::of(given)?.given("url").unwrap_or(given) } else { given };
        let named = if url.starts_with('"') { text(url)? } else { url.into() };
        let hasher = BlockHasher::new(1, 0);
        let space = Namespace { salt: what, ..Namespace::default() };
        let key = hasher.chain(&space).push(named.as_bytes()).0;
        Ok(Media { kind, key })
    }
}

/// `message` with the parts of media where the marks are.
fn with_kinds(message: &Value, kinds: &mut impl Iterator<Item = &'static str>) -> Value {
    let content = message.get_attr("content").unwrap_or_default();
    if content.as_str().is_some() {
        return message.clone();
    }
    let is_mark = |part: &Value| part.get_attr("text").is_ok_and(|text| text.as_str() == Some(MARK));
    let parts = content.try_iter().into_iter().flatten().map(|part| {
        let kind = if is_mark(&part) { kinds.next() } else { None };
        kind.map_or(part, |kind| python::map([("type", Value::from(kind))]))
    });
    let parts = python::list(parts.collect());
    super::continued::with(message, "content", parts)
}
