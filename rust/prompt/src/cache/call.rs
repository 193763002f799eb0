//! Filters, tests and methods: minijinja's own, with the whole text.
//!
//! Each is a pure function of its value and its arguments, so what it gave for a text that is kept is kept
//! with the text. Nothing that a template can do to a text is written a second time here.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::ValueKind;

use super::program::{Call, Expr, Program};
use super::run::Run;
use super::stop::{Ran, Stop};
use super::value::{LONG, List, Memo, Part, Str, Val};

/// A string of more parts or bytes is not made one for a call.
const MAX_FLAT: usize = 4096;

/// What a name calls.
#[derive(Clone, Copy)]
enum Kind {
    Filter,
    Method,
    Contains,
}

impl<'p> Run<'p> {
    pub(super) fn filter(&mut self, call: &'p Call) -> Ran<Val> {
        let on = self.expr(&call.on)?;
        let bare = call.is_bare();
        match (&*call.name, &on) {
            ("length" | "count", Val::List(list)) if bare && (list.slice || !list.lazy) => {
                count(list.items.len())
            }
            ("items", Val::Map(_)) if bare => Ok(pairs(&on)),
            ("list", Val::List(list)) if bare => Ok(List::of(list.items.clone(), false)),
            ("default" | "d", on) if call.arguments.len() == 1 && !call.has_keywords() => match on {
                Val::Undefined => self.expr(&call.arguments[0]),
                on => Ok(on.clone()),
            },
            ("selectattr", Val::List(list)) => self.select(call, list),
            _ => self.call(Kind::Filter, call, &on),
        }
    }

    /// `selectattr(name, "equalto", constant)`.
    fn select(&mut self, call: &'p Call, list: &List) -> Ran<Val> {
        let Some([name, test, wanted]) = call.constant.as_deref() else { return Err(Stop) };
        let (Some(name), Some("equalto" | "eq" | "==")) = (name.as_str(), test.as_str()) else {
            return Err(Stop);
        };
        let (false, Some(wanted)) = (name.contains('.'), wanted.as_str()) else { return Err(Stop) };
        let wanted = Val::Str(Str::short(wanted));
        let mut kept = Vec::new();
        for item in &list.items {
            let Val::Map(map) = item else { return Err(Stop) };
            if self.equal(map.get(name).unwrap_or(&Val::Undefined), &wanted)? {
                kept.push(item.clone());
            }
        }
        Ok(List::of(kept, true))
    }

    pub(super) fn method(&mut self, call: &'p Call) -> Ran<Val> {
        let on = self.expr(&call.on)?;
        let bare = call.is_bare();
        match (&*call.name, &on) {
            ("items", Val::Map(_)) if bare => Ok(pairs(&on)),
            ("get", Val::Map(map)) if call.arguments.len() <= 2 && !call.has_keywords() => {
                let mut arguments = call.arguments.iter();
                let key = arguments.next().map(|key| self.expr(key)).transpose()?;
                let otherwise = arguments.next().map(|other| self.expr(other)).transpose()?;
                let Some(Val::Str(key)) = key else { return Err(Stop) };
                let found = map.get(self.program.flat(&key).ok_or(Stop)?).cloned();
                Ok(found.or(otherwise).unwrap_or(Val::None))
            }
            (_, Val::Str(_)) => self.call(Kind::Method, call, &on),
            _ => Err(Stop),
        }
    }

    pub(super) fn contains(&mut self, call: &'p Call) -> Ran<Val> {
        let on = self.expr(&call.on)?;
        match &on {
            Val::Map(map) => {
                let Val::Str(key) = self.expr(&call.arguments[0])? else { return Err(Stop) };
                Ok(Val::Bool(map.get(self.program.flat(&key).ok_or(Stop)?).is_some()))
            }
            Val::List(list) if list.source.is_none() => {
                let Val::Str(key) = self.expr(&call.arguments[0])? else { return Err(Stop) };
                let key = self.program.flat(&key).ok_or(Stop)?;
                let mut found = false;
                for item in &list.items {
                    let Val::Str(item) = item else { return Err(Stop) };
                    found |= self.program.flat(item).ok_or(Stop)? == key;
                }
                Ok(Val::Bool(found))
            }
            _ => self.call(Kind::Contains, call, &on),
        }
    }

    pub(super) fn test(&mut self, call: &'p Call) -> Ran<Val> {
        if !call.is_bare() {
            return Err(Stop);
        }
        if let Some(on) = self.peek(&call.on) {
            return test(&call.name, on);
        }
        if let Expr::Variable(name) = &call.on
            && self.is_function(*name)
        {
            return match &*call.name {
                "defined" => Ok(Val::Bool(true)),
                "undefined" | "none" | "string" => Ok(Val::Bool(false)),
                _ => Err(Stop),
            };
        }
        test(&call.name, &self.expr(&call.on)?)
    }

    /// What a call gave for this value before.
    pub(super) fn remembered(&self, call: &'p Call) -> Option<Val> {
        call.constant.as_ref()?;
        match self.peek(&call.on)? {
            Val::Str(Str::Part(part)) => {
                part.text.memo.get(call.site, part.start, part.end, Some(&part.text))
            }
            Val::Map(map) => map.memo.get(call.site, 0, 0, None),
            Val::List(list) if list.source.is_some() => list.memo.get(call.site, 0, 0, None),
            _ => None,
        }
    }

    /// Calls minijinja's function, unless what it gives is known.
    fn call(&mut self, kind: Kind, call: &'p Call, on: &Val) -> Ran<Val> {
        let (memo, start, end, own) = match on {
            Val::Str(Str::Part(part)) => (Some(&part.text.memo), part.start, part.end, Some(&part.text)),
            Val::Map(map) => (Some(&map.memo), 0, 0, None),
            Val::List(list) if list.source.is_some() => (Some(&list.memo), 0, 0, None),
            _ => (None, 0, 0, None),
        };
        // Without constant arguments the result depends on more than the value.
        let memo: Option<&Memo> = memo.filter(|_| call.constant.is_some());
        if let Some(known) = memo.and_then(|memo| memo.get(call.site, start, end, own)) {
            return Ok(known);
        }
        let arguments = match &call.constant {
            Some(arguments) => arguments.clone(),
            None => {
                let mut arguments = Vec::with_capacity(call.arguments.len());
                for argument in &call.arguments {
                    let argument = self.expr(argument)?;
                    arguments.push(value(self.program, &argument)?);
                }
                arguments
            }
        };
        let result = self.invoke(kind, &call.name, value(self.program, on)?, arguments)?;
        let result = match on {
            Val::Str(Str::Part(part)) => within(&result, part),
            _ => Val::of(&result, memo.is_some()),
        };
        // A text is kept for its own bytes: another one made of it is made again.
        if let Some(memo) = memo.filter(|_| !matches!(on, Val::Str(_)) || is_light(&result)) {
            memo.put(call.site, start, end, own, &result);
        }
        Ok(result)
    }

    fn invoke(&mut self, kind: Kind, name: &str, on: Value, arguments: Vec<Value>) -> Ran<Value> {
        let with = |first: Value, rest: Vec<Value>| [vec![first], rest].concat();
        let result = match kind {
            Kind::Filter => self.state.apply_filter(name, &with(on, arguments)),
            Kind::Method => on.call_method(&mut self.state, name, &arguments),
            Kind::Contains => {
                let found = self.state.perform_test("in", &[arguments, vec![on]].concat());
                found.map(Value::from)
            }
        };
        result.map_err(|_| Stop)
    }
}

/// A test without arguments.
fn test(name: &str, on: &Val) -> Ran<Val> {
    Ok(Val::Bool(match (name, on) {
        (_, Val::Other(_) | Val::Loop(_) | Val::Namespace(_) | Val::Macro(_)) => return Err(Stop),
        ("defined", on) => !matches!(on, Val::Undefined),
        ("undefined", on) => matches!(on, Val::Undefined),
        ("none", on) => matches!(on, Val::None),
        ("string", on) => matches!(on, Val::Str(_)),
        ("mapping", on) => matches!(on, Val::Map(_)),
        ("boolean", on) => matches!(on, Val::Bool(_)),
        ("true", on) => matches!(on, Val::Bool(true)),
        ("false", on) => matches!(on, Val::Bool(false)),
        ("number", on) => matches!(on, Val::Bool(_) | Val::Int(_)),
        ("sequence", Val::List(list)) => !list.lazy,
        ("sequence", Val::Undefined) => return Err(Stop),
        ("sequence", _) => false,
        ("iterable", Val::List(_) | Val::Map(_) | Val::Str(_)) => true,
        ("iterable", Val::None | Val::Bool(_) | Val::Int(_)) => false,
        _ => return Err(Stop),
    }))
}

/// `result` of a call on `part`: a string that is a part of the same text is one by reference.
fn within(result: &Value, part: &Part) -> Val {
    match result.kind() {
        ValueKind::String => {
            let found = result.as_str().and_then(|text| find(text, part));
            found.map_or_else(|| Val::of(result, false), |part| Val::Str(Str::Part(part)))
        }
        ValueKind::Seq if !result.is_tuple() => match result.try_iter() {
            Ok(items) => List::of(items.map(|item| within(&item, part)).collect(), false),
            Err(_) => Val::of(result, false),
        },
        _ => Val::of(result, false),
    }
}

/// Whether `value` takes next to no memory of its own.
fn is_light(value: &Val) -> bool {
    match value {
        Val::Str(Str::Short(text)) => text.len() < LONG,
        Val::Str(Str::Part(_)) | Val::Undefined | Val::None | Val::Bool(_) | Val::Int(_) => true,
        Val::List(list) => list.items.len() <= 8 && list.items.iter().all(is_light),
        _ => false,
    }
}

fn find(text: &str, part: &Part) -> Option<Part> {
    let at = memchr::memmem::find(part.as_str().as_bytes(), text.as_bytes())?;
    let start = part.start + u32::try_from(at).ok()?;
    let end = start + u32::try_from(text.len()).ok()?;
    Some(Part { text: part.text.clone(), start, end })
}

fn count(length: usize) -> Ran<Val> {
    i64::try_from(length).map(Val::Int).map_err(|_| Stop)
}

fn pairs(on: &Val) -> Val {
    let Val::Map(map) = on else { return Val::Undefined };
    let pair = |(name, value): &(Arc<str>, Val)| {
        List::of(vec![Val::Str(Str::Short(name.clone())), value.clone()], true)
    };
    List::of(map.members.iter().map(pair).collect(), true)
}

/// `val` as minijinja has it.
fn value(program: &Program, val: &Val) -> Ran<Value> {
    Ok(match val {
        Val::Undefined => Value::UNDEFINED,
        Val::None => Value::from(()),
        Val::Bool(value) => Value::from(*value),
        Val::Int(value) => Value::from(*value),
        Val::Str(Str::Part(part)) if part.as_str().len() == part.text.text.len() => {
            Value::from(part.text.text.clone())
        }
        Val::Str(Str::Rope(parts)) => Value::from(flatten(program, parts)?),
        Val::Str(text) => Value::from(program.flat(text).ok_or(Stop)?),
        Val::Map(map) => map.source.clone(),
        Val::List(list) => list.source.clone().ok_or(Stop)?,
        Val::Other(value) => value.clone(),
        Val::Loop(_) | Val::Namespace(_) | Val::Macro(_) => return Err(Stop),
    })
}

fn flatten(program: &Program, parts: &[Str]) -> Ran<String> {
    let mut flat = String::new();
    for part in parts {
        flat.push_str(program.flat(part).ok_or(Stop)?);
        if flat.len() > MAX_FLAT {
            return Err(Stop);
        }
    }
    Ok(flat)
}

impl Program {
    /// The text, where it is in one piece.
    pub(super) fn flat<'s>(&'s self, text: &'s Str) -> Option<&'s str> {
        match text {
            Str::Const(number) => self.constants.get(*number as usize).map(|text| &**text),
            Str::Short(text) => Some(text),
            Str::Part(part) => Some(part.as_str()),
            Str::Rope(_) => None,
        }
    }

    pub(super) fn is_empty(&self, text: &Str) -> bool {
        match text {
            Str::Rope(parts) => parts.iter().all(|part| self.is_empty(part)),
            text => self.flat(text).is_none_or(str::is_empty),
        }
    }
}
