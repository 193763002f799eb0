//! What the end of a reply says of its tokens.

use std::sync::LazyLock;

use memchr::memmem::FinderRev;

/// Bytes of a reply that are kept; `usage` stands within so many of its end.
const KEPT: usize = 1024;

/// The fields that say how many prompt tokens were cached, and how many tokens the reply has: by the names of
/// chat and completions, of messages and of responses.
static CACHED: LazyLock<[FinderRev<'static>; 2]> =
    LazyLock::new(|| ["\"cached_tokens\"", "\"cache_read_input_tokens\""].map(FinderRev::new));
static OUTPUT: LazyLock<[FinderRev<'static>; 2]> =
    LazyLock::new(|| ["\"completion_tokens\"", "\"output_tokens\""].map(FinderRev::new));

/// The last bytes of a reply.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

/// A worker's count of a request's tokens, as far as it gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) cached_tokens: Option<u32>,
    pub(crate) output_tokens: Option<u32>,
}

impl Tail {
    /// Takes in the next bytes of the reply.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(KEPT)..];
        let excess = (self.0.len() + last.len()).saturating_sub(2 * KEPT);
        if excess > 0 {
            // Only now and then, so that small chunks are not shifted one by one.
            self.0.drain(..self.0.len().min(excess + KEPT));
        }
        self.0.extend_from_slice(last);
    }

    /// Whether the reply so far ends with an empty line, or is empty.
    pub(crate) fn at_event_boundary(&self) -> bool {
        self.0.is_empty() || self.0.ends_with(b"\n\n") || self.0.ends_with(b"\r\n\r\n")
    }

    /// What it says of the tokens.
    pub(crate) fn usage(&self) -> Usage {
        let find = |names: &[FinderRev<'_>]| names.iter().find_map(|name| number_after(&self.0, name));
        Usage { cached_tokens: find(&*CACHED), output_tokens: find(&*OUTPUT) }
    }
}

/// The number that follows the last `name`.
fn number_after(text: &[u8], name: &FinderRev<'_>) -> Option<u32> {
    let rest = &text[name.rfind(text)? + name.needle().len()..];
    let rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(text: &str, step: usize) -> Tail {
        let mut tail = Tail::default();
        text.as_bytes().chunks(step).for_each(|chunk| tail.push(chunk));
        tail
    }

    #[test]
    fn finds_usage_however_the_reply_was_cut() {
        let usage = r#"{"x":"NOISE","usage":{"prompt_tokens":9,"completion_tokens": 120,"prompt_tokens_details":{"cached_tokens":96}}}"#;
        let text = usage.replace("NOISE", &"y".repeat(5000));
        for step in [1, 7, 1000, 1023, 1024, 1025, 3000, 10_000] {
            let tail = tail(&text, step);
            assert!(tail.0.len() >= KEPT && tail.0.len() <= 2 * KEPT, "{step}: {}", tail.0.len());
            assert!(text.as_bytes().ends_with(&tail.0));
            assert_eq!(tail.usage(), Usage { cached_tokens: Some(96), output_tokens: Some(120) }, "{step}");
        }
    }

    #[test]
    fn other_names_and_no_usage() {
        let anthropic =
            tail(r#""usage":{"input_tokens":1,"cache_read_input_tokens":0,"output_tokens":7}"#, 9);
        assert_eq!(anthropic.usage(), Usage { cached_tokens: Some(0), output_tokens: Some(7) });
        for text in [
            "",
            "data: [DONE]\n\n",
            r#""cached_tokens":null"#,
            r#""cached_tokens":99999999999"#,
            r#""cached_tokens""#,
        ] {
            assert_eq!(tail(text, 5).usage(), Usage::default(), "{text}");
        }
    }

    #[test]
    fn knows_where_an_event_ends() {
        assert!(tail("", 1).at_event_boundary());
        assert!(tail("data: x\n\n", 3).at_event_boundary());
        assert!(!tail("data: x\n", 3).at_event_boundary());
    }
}
