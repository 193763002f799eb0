//! `tojson` as Hugging Face defines it: Python's `json.dumps` with `ensure_ascii=False`.

use std::fmt::Write;

use minijinja::Error;
use minijinja::value::{Kwargs, Value, ValueKind};

use super::unlike_python;
use crate::python::{DEEPEST_VALUE, odd_float, python_repr};

/// The filter. It takes the keywords of `json.dumps` that Hugging Face passes on.
pub(super) fn tojson(value: &Value, indent: Option<usize>, options: Kwargs) -> Result<String, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<usize>>("indent")?,
    };
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let style = Style {
        item: if indent.is_some() { "," } else { ", " }.to_owned(),
        key: ": ".to_owned(),
        indent,
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    if indent.is_some_and(|indent| indent > WIDEST_INDENT) {
        return Err(unlike_python("an indent that no template has"));
    }
    let style = match separators.as_deref() {
        None => style,
        Some([item, key]) => Style { item: item.clone(), key: key.clone(), ..style },
        Some(_) => return Err(unlike_python("separators are two strings")),
    };
    let mut out = String::new();
    write_value(&mut out, value, &style, 0)?;
    Ok(out)
}

struct Style {
    item: String,
    key: String,
    indent: Option<usize>,
    sort_keys: bool,
    ascii: bool,
}

impl Style {
    fn line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }
}

/// Spaces of one level.
pub(super) const WIDEST_INDENT: usize = 64;
/// Bytes of JSON; a body has fewer. A value that holds itself many times over would have no end.
const LONGEST: usize = 128 << 20;

fn write_value(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => write_number(out, value)?,
        ValueKind::String => write_string(out, value.as_str().unwrap_or_default(), style.ascii),
        ValueKind::Seq => {
            let items = value.try_iter()?;
            write_items(out, ('[', ']'), items, style, depth, |out, item| {
                write_value(out, &item, style, depth + 1)
            })?;
        }
        ValueKind::Map => write_map(out, value, style, depth)?,
        _ => match odd_float(value) {
            Some(float) => write_float(out, float),
            None => return Err(unlike_python("tojson of something that is not JSON")),
        },
    }
    Ok(())
}

fn write_map(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    let mut keys: Vec<Value> = value.try_iter()?.collect();
    if style.sort_keys {
        keys.sort();
    }
    write_items(out, ('{', '}'), keys.into_iter(), style, depth, |out, key| {
        match key.kind() {
            ValueKind::String => write_string(out, key.as_str().unwrap_or_default(), style.ascii),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                out.push('"');
                write_value(out, &key, style, depth + 1)?;
                out.push('"');
            }
            _ => return Err(unlike_python("a key that JSON does not have")),
        }
        out.push_str(&style.key);
        write_value(out, &value.get_item(&key)?, style, depth + 1)
    })
}

fn write_items(
    out: &mut String,
    (open, close): (char, char),
    items: impl Iterator<Item = Value>,
    style: &Style,
    depth: usize,
    mut write: impl FnMut(&mut String, Value) -> Result<(), Error>,
) -> Result<(), Error> {
    if depth == DEEPEST_VALUE {
        return Err(unlike_python("a value without an end"));
    }
    out.push(open);
    let mut empty = true;
    for item in items {
        if !empty {
            out.push_str(&style.item);
        }
        if out.len() > LONGEST {
            return Err(unlike_python("a value without an end"));
        }
        empty = false;
        style.line(out, depth + 1);
        write(out, item)?;
    }
    if !empty {
        style.line(out, depth);
    }
    out.push(close);
    Ok(())
}

fn write_number(out: &mut String, value: &Value) -> Result<(), Error> {
    if value.is_integer() {
        out.push_str(&value.to_string());
        return Ok(());
    }
    write_float(out, f64::try_from(value.clone())?);
    Ok(())
}

fn write_float(out: &mut String, float: f64) {
    match float {
        _ if float.is_nan() => out.push_str("NaN"),
        f64::INFINITY => out.push_str("Infinity"),
        f64::NEG_INFINITY => out.push_str("-Infinity"),
        _ => out.push_str(&python_repr(float)),
    }
}

fn write_string(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    let mut from = 0;
    for (at, char) in text.char_indices() {
        let escape = match char {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\0'..='\u{1f}' => "",
            _ if ascii && !(' '..='~').contains(&char) => "",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        from = at + char.len_utf8();
        out.push_str(escape);
        if escape.is_empty() {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _infallible = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out.push_str(&text[from..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use minijinja::Environment;

    use super::*;
    use crate::json::to_value;

    fn render(filter: &str, json: &str) -> String {
        let mut environment = Environment::new();
        environment.add_filter("tojson", tojson);
        let context = Value::from_pairs([("x", to_value(json).unwrap())]);
        environment.render_str(&format!("{{{{ x|{filter} }}}}"), context).unwrap()
    }

    #[test]
    fn writes_what_json_dumps_writes() {
        let json = r#"{"b": [1, 2.50, 1e22, true, null], "a": {"é\u0001\u007f\"\\/": "\b\f\n\r\t😀<>&'"}, "c": [], "d": {}}"#;
        let compact = "{\"b\": [1, 2.5, 1e+22, true, null], \"a\": {\"é\\u0001\u{7f}\\\"\\\\/\": \"\\b\\f\\n\\r\\t😀<>&'\"}, \"c\": [], \"d\": {}}";
        assert_eq!(render("tojson", json), compact);
        assert_eq!(
            render("tojson(sort_keys=true, separators=(',', ':'))", r#"{"b": 1, "a": [1, 2]}"#),
            r#"{"a":[1,2],"b":1}"#
        );
        assert_eq!(
            render("tojson(indent=2)", r#"{"b": [1, {}], "a": []}"#),
            "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": []\n}"
        );
        assert_eq!(render("tojson(ensure_ascii=true)", r#""é😀\u007f""#), r#""\u00e9\ud83d\ude00\u007f""#);
        assert_eq!(render("tojson", "[NaN, Infinity, -Infinity, -0.0]"), "[NaN, Infinity, -Infinity, -0.0]");
    }
}
