//! White space, of which Python knows four characters more.

/// `text.strip()`.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `text.lstrip()`.
pub(crate) fn strip_start(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// `text.rstrip()`.
pub(crate) fn strip_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

fn is_space(char: char) -> bool {
    char.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&char)
}
