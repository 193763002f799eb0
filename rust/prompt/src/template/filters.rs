//! Filters, tests and methods where minijinja is not Jinja or Python.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::dumps::WIDEST_INDENT;
use super::unlike_python;
use crate::python::{odd_float, strip, strip_end, strip_start, write_repr};

/// Filters that Jinja has not, or that are not known to be the same. A template that uses one is refused.
const UNLIKE: [&str; 20] = [
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "e",
    "escape",
    "float",
    "format",
    "groupby",
    "lines",
    "pprint",
    "round",
    "slice",
    "split",
    "sum",
    "title",
    "truncate",
    "urlencode",
    "zip",
];
/// Characters at which Python's `splitlines` splits besides those of ASCII text.
const LINE_ENDS: [char; 10] =
    ['\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}', '\u{1f}'];

/// Makes `environment` Jinja's.
pub(super) fn add(environment: &mut Environment<'static>) {
    for name in UNLIKE {
        environment.remove_filter(name);
    }
    // No function of Jinja's, so a template may ask whether it is defined.
    environment.remove_global("debug");
    environment.add_filter("indent", indent);
    environment.add_filter("trim", trim);
    environment.add_test("number", |value: &Value| {
        matches!(value.kind(), ValueKind::Number | ValueKind::Bool) || odd_float(value).is_some()
    });
    environment.add_test("float", |value: &Value| {
        value.is_number() && !value.is_integer() || odd_float(value).is_some()
    });
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.set_unknown_method_callback(method);
}

/// Jinja's `indent`: the last line end counts as a line.
fn indent(value: &Value, arguments: Rest<Value>) -> Result<String, Error> {
    let text = value.as_str().ok_or_else(|| unlike_python("indent of something that is not a string"))?;
    let (positional, options): (&[Value], Kwargs) = minijinja::value::from_args(&arguments)?;
    let argument = |place: usize, name: &str| match positional.get(place) {
        Some(value) => Ok(Some(value.clone())),
        None => options.get::<Option<Value>>(name),
    };
    let indention = match argument(0, "width")? {
        None => " ".repeat(4),
        Some(width) => match width.as_str() {
            Some(width) => width.to_owned(),
            None => " ".repeat(usize::try_from(width)?.min(WIDEST_INDENT + 1)),
        },
    };
    if indention.len() > WIDEST_INDENT {
        return Err(unlike_python("an indent that no template has"));
    }
    let flag = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let (first, blank) = (flag(argument(1, "first")?), flag(argument(2, "blank")?));
    options.assert_all_used()?;
    if text.contains(LINE_ENDS) {
        return Err(unlike_python("indent of a text with other line ends"));
    }
    let mut out = String::with_capacity(text.len() + 64);
    for (place, line) in text.split('\n').enumerate() {
        if place > 0 {
            out.push('\n');
        }
        if if place == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(out)
}

fn trim(value: &Value, characters: Option<&str>) -> Result<String, Error> {
    let mut printed = String::new();
    let text = match value.as_str() {
        Some(text) => text,
        None if value.is_undefined() => "",
        None => {
            write_repr(&mut printed, value).map_err(Error::from)?;
            &printed
        }
    };
    Ok(match characters {
        None => strip(text).to_owned(),
        Some(characters) => text.trim_matches(|char| characters.contains(char)).to_owned(),
    })
}

/// Methods of Python's types.
fn method(state: &mut State<'_, '_>, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return unknown_method_callback(state, value, name, arguments);
    };
    match name {
        "strip" if arguments.is_empty() => return Ok(Value::from(strip(text))),
        "lstrip" if arguments.is_empty() => return Ok(Value::from(strip_start(text))),
        "rstrip" if arguments.is_empty() => return Ok(Value::from(strip_end(text))),
        "split" if arguments.first().is_none_or(Value::is_none) && text.contains(LINE_ENDS) => {}
        "splitlines" if text.contains(LINE_ENDS) => {}
        "title" | "capitalize" | "isspace" | "isdigit" | "isnumeric" | "isalnum" | "isalpha" | "islower"
        | "isupper"
            if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b' ') => {}
        "removeprefix" | "removesuffix" => return removed(text, name, arguments),
        _ => return unknown_method_callback(state, value, name, arguments),
    }
    Err(unlike_python("a method of a string with characters for which it is not known"))
}

fn removed(text: &str, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let [Some(affix)] = arguments.iter().map(Value::as_str).collect::<Vec<_>>()[..] else {
        return Err(Error::from(ErrorKind::MissingArgument));
    };
    let rest = if name == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
    Ok(Value::from(rest.unwrap_or(text)))
}
