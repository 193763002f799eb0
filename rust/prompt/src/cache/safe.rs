//! Where a text may be cut so that its pieces have the ids of the whole.
//!
//! A tokenizer first looks for added tokens, at each place the longest, and treats what is between them
//! piece by piece. Let S be an added token that overlaps no added token. Then S is found wherever its text
//! stands, whatever is around it, and
//! `ids(text) = ids(text up to and with S) ++ ids(text from S on)[1..]`: both sides see S as their
//! neighbour, so that they treat white space and words beside it as in the whole.

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

use crate::encode::Encoder;

/// The added tokens at which a text may be cut.
#[derive(Debug)]
pub(super) struct SafeTokens {
    finder: AhoCorasick,
    /// The id of each pattern of the finder.
    ids: Vec<u32>,
    /// What stands around the ids of a whole input: BOS and EOS. `None` where more is done to it.
    pub(super) around: Option<(Vec<u32>, Vec<u32>)>,
}

/// A place of a safe token in a text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) id: u32,
}

struct Added<'d> {
    id: u32,
    text: &'d str,
    plain: bool,
}

impl SafeTokens {
    /// Those of `definition`, a `tokenizer.json`; `None` where there are none, or `encoder` shows that a
    /// cut at one of them changes ids.
    pub(super) fn of(definition: &Value, encoder: &Encoder) -> Option<SafeTokens> {
        let normalizes = normalizes(definition.get("normalizer"));
        let added = definition.get("added_tokens")?.as_array()?.iter();
        let added: Vec<Added<'_>> = added.filter_map(|token| read(token, normalizes)).collect();
        let found = |token: &&Added<'_>| encoder.encode(token.text, false).is_ok_and(|ids| ids == [token.id]);
        let safe: Vec<&Added<'_>> = added
            .iter()
            .filter(|token| token.plain && !token.text.is_empty())
            .filter(|token| added.iter().all(|other| apart(token.text, other.text)))
            .filter(found)
            .collect();
        if safe.is_empty() {
            return None;
        }
        let texts = safe.iter().map(|token| token.text);
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts).ok()?;
        let ids = safe.iter().map(|token| token.id).collect();
        let tokens = SafeTokens { finder, ids, around: around(encoder) };
        safe.iter().take(MAX_TRIED).all(|token| tokens.holds_at(token, encoder)).then_some(tokens)
    }

    /// Where safe tokens stand in `text`, in order; they do not overlap.
    pub(super) fn places<'s>(&'s self, text: &'s str) -> impl Iterator<Item = Place> + 's {
        self.finder.find_iter(text).filter_map(|found| {
            let id = *self.ids.get(found.pattern().as_usize())?;
            Some(Place { start: found.start(), end: found.end(), id })
        })
    }

    /// Tries the rule on texts that cuts elsewhere get wrong.
    fn holds_at(&self, token: &Added<'_>, encoder: &Encoder) -> bool {
        SIDES.iter().flat_map(|left| SIDES.iter().map(move |right| (left, right))).all(|(left, right)| {
            let (before, after) = (format!("{left}{}", token.text), format!("{}{right}", token.text));
            let whole = encoder.encode(&format!("{before}{right}"), false);
            let (Ok(whole), Ok(mut ids), Ok(rest)) =
                (whole, encoder.encode(&before, false), encoder.encode(&after, false))
            else {
                return false;
            };
            ids.extend_from_slice(rest.get(1..).unwrap_or_default());
            rest.first() == Some(&token.id) && ids == whole
        })
    }
}

/// Safe tokens that are tried; tokenizers have hundreds that are alike, for reserved uses.
const MAX_TRIED: usize = 32;

const SIDES: [&str; 8] = ["", " ", "word", " word ", "\n\n", "1 2 ", "\u{301}é", "  日本"];

/// Whether a tokenizer with this normalizer may look for tokens in another text than the given one.
fn normalizes(normalizer: Option<&Value>) -> bool {
    match normalizer {
        None | Some(Value::Null) => false,
        Some(normalizer) => normalizer
            .get("normalizers")
            .and_then(Value::as_array)
            .is_none_or(|steps| steps.iter().any(|step| normalizes(Some(step)))),
    }
}

fn read(token: &Value, normalizes: bool) -> Option<Added<'_>> {
    let flag = |name: &str| token.get(name).and_then(Value::as_bool).unwrap_or(false);
    Some(Added {
        id: u32::try_from(token.get("id")?.as_u64()?).ok()?,
        text: token.get("content")?.as_str()?,
        plain: !(flag("single_word") || normalizes && flag("normalized")),
    })
}

/// Whether no text can hold `token` and `other` in places that overlap, but for `other` inside `token`.
fn apart(token: &str, other: &str) -> bool {
    let inside = token != other && other.contains(token);
    let (token, other) = (token.as_bytes(), other.as_bytes());
    let shorter = token.len().min(other.len());
    let overlaps = |length: usize| {
        token.starts_with(&other[other.len() - length..]) && length < other.len()
            || token.ends_with(&other[..length]) && length < other.len()
    };
    // An overlap of the whole token is `inside`, or one of equal texts.
    !inside && !(1..=shorter).filter(|length| *length < token.len()).any(overlaps)
}

/// What is put before and after the ids of an input, where that is all that happens to it.
fn around(encoder: &Encoder) -> Option<(Vec<u32>, Vec<u32>)> {
    let whole = encoder.encode("a", true).ok()?;
    let plain = encoder.encode("a", false).ok()?;
    let at = whole.windows(plain.len().max(1)).position(|window| window == plain)?;
    let (before, after) = (whole[..at].to_vec(), whole[at + plain.len()..].to_vec());
    let added = |text: &&str| {
        let plain = encoder.encode(text, false).ok();
        let expected = plain.map(|plain| [&before[..], &plain, &after].concat());
        expected.is_some() && encoder.encode(text, true).ok() == expected
    };
    SIDES.iter().all(added).then_some((before, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_overlap_are_not_safe() {
        for (token, other) in [("<a>", "<b>"), ("<|x|>", "<|x2|>"), ("<think>", "</think>"), ("<aa>", "aa")] {
            assert!(apart(token, other), "{token} {other}");
        }
        for (token, other) in [
            ("<a>", "x<a>"),
            ("<a>", "<a>x"),
            ("<a>", "x<"),
            ("<a>", ">x"),
            ("<a>", "x<a"),
            ("aba", "aba"),
            ("<a>", "a>b"),
        ] {
            assert!(!apart(token, other), "{token} {other}");
        }
    }
}
