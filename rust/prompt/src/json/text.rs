//! Strings as a program sees them.

use std::borrow::Cow;

use memchr::memchr;

/// The text of `raw`, a JSON string with its quotes; borrowed where nothing is escaped.
///
/// `None` where it has no text in UTF-8 (a lone surrogate, which Python would take), is malformed (a
/// bare control character, an unknown escape) or is not a string at all.
pub(crate) fn unescape(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    // Without an early exit, so that the compiler looks at many bytes at once.
    let has_control = inner.bytes().fold(false, |found, byte| found | (byte < 0x20));
    if !has_control && memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(raw).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrows_where_nothing_is_escaped() {
        assert!(matches!(unescape("\"héllo\""), Some(Cow::Borrowed("héllo"))));
        assert_eq!(unescape(r#""a\n\u00e9\ud83d\ude00\u0000""#).as_deref(), Some("a\né😀\0"));
    }

    #[test]
    fn refuses_what_has_no_text() {
        for raw in [r#""\ud800""#, r#""\x""#, "\"a\nb\"", "7", "\"", "", "\"a\\\""] {
            assert_eq!(unescape(raw), None, "{raw}");
        }
    }
}
