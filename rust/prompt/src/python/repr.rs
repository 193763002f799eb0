//! `repr` of values: what Python prints of them inside lists and dicts.

use std::fmt::{Result, Write};

use minijinja::value::{Value, ValueKind};

use super::{odd_float, python_repr};

/// Stands in a text for what Python would print in a way that is not known here. It is no character.
pub(crate) const UNLIKE_PYTHON: char = '\u{fdd0}';

/// Deeper values come from no request (they end at 128), only from a template that nests one in itself.
pub(crate) const DEEPEST_VALUE: usize = 160;
/// Values inside one that is printed: one that holds itself many times over would have no end.
const MOST_VALUES: usize = 1 << 20;

/// Writes `repr(value)`.
pub(crate) fn write_repr(out: &mut impl Write, value: &Value) -> Result {
    let mut left = MOST_VALUES;
    if ends(value, DEEPEST_VALUE, &mut left) {
        write_value(out, value)
    } else {
        out.write_char(UNLIKE_PYTHON)
    }
}

/// Whether `value` is no deeper than `depth` and holds no more than `left` others.
fn ends(value: &Value, depth: usize, left: &mut usize) -> bool {
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Map) {
        return true;
    }
    let is_map = value.kind() == ValueKind::Map;
    depth > 0
        && value.try_iter().into_iter().flatten().all(|item| {
            *left = left.saturating_sub(1);
            let item = if is_map { value.get_item(&item).unwrap_or_default() } else { item };
            *left > 0 && ends(&item, depth - 1, left)
        })
}

fn write_value(out: &mut impl Write, value: &Value) -> Result {
    match value.kind() {
        ValueKind::None => out.write_str("None"),
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number if value.is_integer() => write!(out, "{value}"),
        ValueKind::Number => match f64::try_from(value.clone()) {
            Ok(float) => write_float(out, float),
            Err(_) => out.write_char(UNLIKE_PYTHON),
        },
        ValueKind::String => write_string(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq if !value.is_tuple() => write_list(out, value),
        ValueKind::Map => write_map(out, value),
        _ => match odd_float(value) {
            Some(float) => write_float(out, float),
            None => out.write_char(UNLIKE_PYTHON),
        },
    }
}

fn write_float(out: &mut impl Write, value: f64) -> Result {
    if value.is_nan() {
        return out.write_str("nan");
    }
    if value.is_infinite() {
        return out.write_str(if value > 0.0 { "inf" } else { "-inf" });
    }
    out.write_str(&python_repr(value))
}

fn write_list(out: &mut impl Write, value: &Value) -> Result {
    out.write_char('[')?;
    for (place, element) in value.try_iter().into_iter().flatten().enumerate() {
        if place > 0 {
            out.write_str(", ")?;
        }
        write_value(out, &element)?;
    }
    out.write_char(']')
}

fn write_map(out: &mut impl Write, value: &Value) -> Result {
    out.write_char('{')?;
    for (place, name) in value.try_iter().into_iter().flatten().enumerate() {
        if place > 0 {
            out.write_str(", ")?;
        }
        write_value(out, &name)?;
        out.write_str(": ")?;
        write_value(out, &value.get_item(&name).unwrap_or_default())?;
    }
    out.write_char('}')
}

fn write_string(out: &mut impl Write, text: &str) -> Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for char in text.chars() {
        match char {
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            _ if char == quote => write!(out, "\\{char}")?,
            ' '..='~' => out.write_char(char)?,
            _ => write_other(out, char)?,
        }
    }
    out.write_char(quote)
}

/// Python escapes what its version of Unicode does not call printable. Characters for which that could depend on the
/// version, or whose class is not known here, are not written.
fn write_other(out: &mut impl Write, char: char) -> Result {
    match u32::from(char) {
        code @ (0..=0x1f | 0x7f..=0xa0 | 0xad) => write!(out, "\\x{code:02x}"),
        code @ (0x2000..=0x200f | 0x2028..=0x202f | 0x205f..=0x2064 | 0x3000 | 0xfeff | 0xe000..=0xf8ff) => {
            write!(out, "\\u{code:04x}")
        }
        _ if char.is_alphanumeric() || is_printable(char) => out.write_char(char),
        _ => out.write_char(UNLIKE_PYTHON),
    }
}

/// Blocks of symbols, punctuation and marks without a gap.
fn is_printable(char: char) -> bool {
    matches!(
        u32::from(char),
        0xa1..=0xff
            | 0x300..=0x36f
            | 0x2010..=0x2027
            | 0x2030..=0x205e
            | 0x20a0..=0x20bf
            | 0x2100..=0x218b
            | 0x2190..=0x2426
            | 0x2460..=0x2b73
            | 0x3001..=0x303f
            | 0xfe00..=0xfe0f
            | 0xff01..=0xff60
            | 0x1f300..=0x1f6d2
            | 0x1f900..=0x1f9ff
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::to_value;

    fn printed(json: &str) -> String {
        let mut out = String::new();
        write_repr(&mut out, &to_value(json).unwrap()).unwrap();
        assert_eq!(out, to_value(json).unwrap().to_string());
        out
    }

    #[test]
    fn prints_as_python() {
        assert_eq!(
            printed(
                r#"{"a": [1, -2.50, 1e22, 1e-7, true, null, {}], "b": {"c": [[]]}, "d": 18446744073709551616}"#
            ),
            "{'a': [1, -2.5, 1e+22, 1e-07, True, None, {}], 'b': {'c': [[]]}, 'd': 18446744073709551616}"
        );
        assert_eq!(
            printed(r#"["it's", "\"", "'\"", "\\\n\t\r\u0001\u007f"]"#),
            r#"["it's", '"', '\'"', '\\\n\t\r\x01\x7f']"#
        );
        assert_eq!(
            printed(r#"["é 日本 😀\u00a0\u200d\u2028\ufeff“…”"]"#),
            r#"['é 日本 😀\xa0\u200d\u2028\ufeff“…”']"#
        );
        assert_eq!(printed("[NaN, Infinity, -Infinity]"), "[nan, inf, -inf]");
        assert!(printed(r#"["\u0378"]"#).contains(UNLIKE_PYTHON));
    }
}
