//! A worker's server-sent events, read as they come. The bytes are untrusted.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::pb;

/// The longest line of a stream; a longer one is no event of a token.
const MAX_LINE_BYTES: usize = 4 << 20;
/// Characters of a worker's message that are repeated.
const MAX_MESSAGE_CHARS: usize = 512;

/// What an event says.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    /// A choice grows.
    Chunk(pb::Chunk, Tokens),
    /// What was used.
    Usage(pb::Usage),
    /// The reply is complete.
    Done,
    /// The worker failed.
    Broken(String),
}

/// How many tokens a chunk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tokens {
    /// The worker lists them.
    Known(u32),
    /// It does not.
    Unknown,
}

/// Bytes that are not a whole event yet.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    ended: bool,
}

impl Events {
    /// Takes in bytes, and tells of each event that they complete. After the end, and after a failure, there is none.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut tell: impl FnMut(Event)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (head, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if self.line.is_empty() {
                self.take_line(head, &mut tell);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                self.take_line(&line, &mut tell);
                line.clear();
                self.line = line;
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > MAX_LINE_BYTES {
            self.line = Vec::new();
            self.fail("it sent a line that is too long", &mut tell);
        }
    }

    fn fail(&mut self, why: &str, tell: &mut impl FnMut(Event)) {
        if !std::mem::replace(&mut self.ended, true) {
            tell(Event::Broken(why.to_owned()));
        }
    }

    fn take_line(&mut self, line: &[u8], tell: &mut impl FnMut(Event)) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            let mut data = std::mem::take(&mut self.data);
            if !data.is_empty() && !self.ended {
                self.take_event(&data, tell);
            }
            data.clear();
            self.data = data;
        } else if let Some(data) = line.strip_prefix(b"data:") {
            if self.data.len() + data.len() > MAX_LINE_BYTES {
                return self.fail("it sent an event that is too long", tell);
            }
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        }
    }

    fn take_event(&mut self, data: &[u8], tell: &mut impl FnMut(Event)) {
        if data == b"[DONE]" {
            self.ended = true;
            return tell(Event::Done);
        }
        let Ok(event) = serde_json::from_slice::<Json<'_>>(data) else {
            return self.fail("it sent an event that is no JSON object of a reply", tell);
        };
        if let Some(error) = event.error {
            return self.fail(&message(error.get()), tell);
        }
        for choice in event.choices {
            let tokens = choice.token_ids.as_ref();
            let tokens = tokens.map_or(Tokens::Unknown, |ids| Tokens::Known(ids.len() as u32));
            tell(Event::Chunk(choice.into(), tokens));
        }
        if let Some(usage) = event.usage {
            tell(Event::Usage(usage.into()));
        }
    }
}

/// The message of a worker's error, an object or a text, cut where it is long.
pub(super) fn message(json: &str) -> String {
    #[derive(Deserialize)]
    struct Error {
        message: String,
    }
    let text = serde_json::from_str::<Error>(json).map(|error| error.message);
    let text = text.or_else(|_| serde_json::from_str::<String>(json)).unwrap_or_default();
    if text.is_empty() {
        "it reports an error".to_owned()
    } else {
        text.chars().take(MAX_MESSAGE_CHARS).collect()
    }
}

#[derive(Deserialize)]
struct Json<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    usage: Option<UsageJson>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
    token_ids: Option<Vec<u32>>,
}

#[derive(Default, Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct UsageJson {
    #[serde(default)]
    prompt_tokens: u32,
    completion_tokens: Option<u32>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u32>,
}

impl From<Choice<'_>> for pb::Chunk {
    fn from(choice: Choice<'_>) -> pb::Chunk {
        let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).unwrap_or_default();
        let delta = choice.delta.unwrap_or_default();
        let tools = delta.tool_calls.map(RawValue::get).filter(|raw| !matches!(*raw, "null" | "[]"));
        pb::Chunk {
            choice: choice.index,
            text: owned(choice.text.or(delta.content)),
            token_ids: choice.token_ids.unwrap_or_default(),
            reasoning: owned(delta.reasoning.or(delta.reasoning_content)),
            tool_calls_json: tools.unwrap_or_default().to_owned(),
            finish_reason: owned(choice.finish_reason),
        }
    }
}

impl From<UsageJson> for pb::Usage {
    fn from(usage: UsageJson) -> pb::Usage {
        pb::Usage {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens.unwrap_or(0),
            cached_tokens: usage.prompt_tokens_details.and_then(|details| details.cached_tokens),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(parts: &[&[u8]]) -> Vec<Event> {
        let (mut events, mut told) = (Events::default(), Vec::new());
        for part in parts {
            events.feed(part, |event| told.push(event));
        }
        told
    }

    fn chunk(text: &str) -> pb::Chunk {
        pb::Chunk { text: text.to_owned(), ..pb::Chunk::default() }
    }

    const STREAM: &[u8] = concat!(
        ": a comment\r\n\r\n",
        "data: {\"choices\":[{\"index\":0,\"text\":\"a\\u00e9\\n\",\"finish_reason\":null}]}\n\n",
        "event: message\ndata:{\"choices\":[{\"delta\":{\"content\":\"b\"},\"token_ids\":[1,2]}],\ndata: \"usage\":null}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}\r\n\r\n",
        "data: [DONE]\n\n",
        "data: {\"choices\":[{\"text\":\"late\"}]}\n\n",
    )
    .as_bytes();

    fn expected() -> Vec<Event> {
        vec![
            Event::Chunk(chunk("aé\n"), Tokens::Unknown),
            Event::Chunk(pb::Chunk { token_ids: vec![1, 2], ..chunk("b") }, Tokens::Known(2)),
            Event::Usage(pb::Usage { prompt_tokens: 5, completion_tokens: 3, cached_tokens: None }),
            Event::Done,
        ]
    }

    #[test]
    fn what_is_broken_is_told_once_and_ends_the_stream() {
        let broken = |data: &str| told(&[format!("data: {data}\n\ndata: [DONE]\n\n").as_bytes()]);
        for data in ["{", "[]", "7", "{\"choices\": 1}", "{\"choices\": [{\"index\": -1}]}"] {
            assert!(matches!(broken(data).as_slice(), [Event::Broken(_)]), "{data}");
        }
        let message = |data: &str| match broken(data).as_slice() {
            [Event::Broken(why)] => why.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(message("{\"error\": {\"message\": \"full\", \"code\": 500}}"), "full");
        assert_eq!(message("{\"error\": \"full\"}"), "full");
        assert_eq!(message("{\"error\": {}}"), "it reports an error");
        let long = format!("{{\"error\": \"{}\"}}", "x".repeat(2_000));
        assert_eq!(message(&long).len(), MAX_MESSAGE_CHARS);
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_for_ever() {
        let (mut events, mut told) = (Events::default(), Vec::new());
        for _ in 0..100 {
            events.feed(&vec![b'x'; 1 << 17], |event| told.push(event));
        }
        assert!(matches!(told.as_slice(), [Event::Broken(_)]));
        assert!(events.line.len() <= MAX_LINE_BYTES);
        let part = [b"data: ", vec![b'x'; 1 << 17].as_slice(), b"\n"].concat();
        let (mut events, mut told) = (Events::default(), Vec::new());
        for _ in 0..100 {
            events.feed(&part, |event| told.push(event));
        }
        assert!(matches!(told.as_slice(), [Event::Broken(_)]));
        assert!(events.data.len() <= MAX_LINE_BYTES);
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_does_not_matter(cuts in prop::collection::vec(0..STREAM.len(), 0..8)) {
            let mut cuts: Vec<_> = cuts.into_iter().chain([0, STREAM.len()]).collect();
            cuts.sort_unstable();
            let parts: Vec<_> = cuts.windows(2).map(|pair| &STREAM[pair[0]..pair[1]]).collect();
            prop_assert_eq!(told(&parts), expected());
        }

        #[test]
        fn any_bytes_are_read_without_harm(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..8)) {
            let parts: Vec<_> = parts.iter().map(Vec::as_slice).collect();
            let told = told(&parts);
            prop_assert!(told.iter().filter(|event| matches!(event, Event::Broken(_) | Event::Done)).count() <= 1);
        }
    }
}
