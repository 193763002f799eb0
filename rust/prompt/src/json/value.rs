//! JSON as the values a template works on, with what Python would make of it.

use minijinja::Value;

use super::Cursor;
use super::text::unescape;
use crate::{Refused, python};

/// Arrays and objects inside one another that are rendered; schemas written by hand have about ten.
const MAX_DEPTH: usize = 128;

/// The value of `raw`. Members keep their order; of a name that occurs twice the last value counts, in
/// the first one's place, as in a Python dict.
///
/// # Errors
/// [`Refused`] for what Python's `json` does not take, and for what has no counterpart here: lone
/// surrogates, integers beyond 128 bits, nesting beyond [`MAX_DEPTH`].
pub(crate) fn to_value(raw: &str) -> Result<Value, Refused> {
    let mut cursor = Cursor::new(raw);
    cursor.skip_space();
    let value = read(&mut cursor, 0)?;
    cursor.finish().map_err(|_| NOT_JSON)?;
    Ok(value)
}

const NOT_JSON: Refused = Refused::NotJson;

fn read(cursor: &mut Cursor<'_>, depth: usize) -> Result<Value, Refused> {
    match cursor.peek() {
        Some(b'{') if depth < MAX_DEPTH => object(cursor, depth),
        Some(b'[') if depth < MAX_DEPTH => array(cursor, depth),
        Some(b'{' | b'[') => Err(Refused::Value),
        _ => scalar(cursor.value().map_err(|_| NOT_JSON)?),
    }
}

fn object(cursor: &mut Cursor<'_>, depth: usize) -> Result<Value, Refused> {
    cursor.enter(b'{', "an object").map_err(|_| NOT_JSON)?;
    let mut members = Vec::new();
    while let Some(key) = cursor.key(members.is_empty()).map_err(|_| NOT_JSON)? {
        members.push((string(key)?, read(cursor, depth + 1)?));
    }
    Ok(python::map(members))
}

fn array(cursor: &mut Cursor<'_>, depth: usize) -> Result<Value, Refused> {
    cursor.enter(b'[', "an array").map_err(|_| NOT_JSON)?;
    let mut elements = Vec::new();
    while !cursor.ends(b']', elements.is_empty()).map_err(|_| NOT_JSON)? {
        elements.push(read(cursor, depth + 1)?);
    }
    Ok(python::list(elements))
}

/// The text of a JSON string, or why it has none.
pub(crate) fn string(raw: &str) -> Result<Value, Refused> {
    unescape(raw).map(Value::from).ok_or(Refused::Value)
}

fn scalar(raw: &str) -> Result<Value, Refused> {
    match raw {
        "null" => Ok(Value::from(())),
        "true" => Ok(Value::from(true)),
        "false" => Ok(Value::from(false)),
        "NaN" => Ok(python::float(f64::NAN)),
        "Infinity" => Ok(python::float(f64::INFINITY)),
        "-Infinity" => Ok(python::float(f64::NEG_INFINITY)),
        _ if raw.starts_with('"') => string(raw),
        _ => number(raw),
    }
}

fn number(raw: &str) -> Result<Value, Refused> {
    if !is_number(raw) {
        return Err(NOT_JSON);
    }
    if raw.contains(['.', 'e', 'E']) {
        return raw.parse::<f64>().map(python::float).map_err(|_| NOT_JSON);
    }
    if let Ok(integer) = raw.parse::<i64>() {
        return Ok(Value::from(integer));
    }
    raw.parse::<i128>().map(Value::from).map_err(|_| Refused::Value)
}

/// Whether `raw` has the form of a JSON number, which is stricter than what Rust parses.
fn is_number(raw: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match raw.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (raw, None),
    };
    let (integer, fraction) = match mantissa.split_once('.') {
        Some((integer, fraction)) => (integer, Some(fraction)),
        None => (mantissa, None),
    };
    let integer = integer.strip_prefix('-').unwrap_or(integer);
    digits(integer)
        && (integer == "0" || !integer.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_python_does_not_read() {
        for raw in [
            "01",
            "+1",
            "1.",
            ".5",
            "1e",
            "0x1",
            "tru",
            "[1,]",
            "[,1]",
            "{\"a\":1,}",
            "[1 2]",
            "\"\t\"",
            "1 1",
            "",
        ] {
            assert!(to_value(raw).is_err(), "{raw}");
        }
        assert!(to_value(&format!("{}{}", "[".repeat(200), "]".repeat(200))).is_err());
        assert!(to_value(&"9".repeat(60)).is_err());
    }

    #[test]
    fn reads_what_python_reads() {
        let value =
            to_value(r#" {"b": [1, -0, 2.50, 1E3, true, null], "a": "\u00e9", "b": 18446744073709551616} "#);
        assert_eq!(value.unwrap().to_string(), r#"{'b': 18446744073709551616, 'a': 'é'}"#);
        assert_eq!(to_value("[-0, 2.50, 1E3, NaN]").unwrap().to_string(), "[0, 2.5, 1000.0, nan]");
    }
}
