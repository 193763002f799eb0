//! What a template works on here: minijinja's values, except that long texts are references.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use minijinja::Value;
use minijinja::value::ValueKind;
use parking_lot::Mutex;

/// A text as long as this, or longer, is kept once and referred to; a shorter one is copied.
pub(super) const LONG: usize = 64;

/// Names and roles that every message has: in one place for all, they stay near the processor.
const COMMON: [&str; 14] = [
    "role",
    "content",
    "user",
    "assistant",
    "system",
    "tool",
    "developer",
    "type",
    "text",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
];

/// `text`, in a place that it shares with others that are equal where it is a common one.
fn shared(text: &str) -> Arc<str> {
    static PLACES: LazyLock<Vec<Arc<str>>> = LazyLock::new(|| COMMON.into_iter().map(Arc::from).collect());
    PLACES.iter().find(|known| ***known == *text).map_or_else(|| Arc::from(text), Arc::clone)
}

/// A value in a template.
#[derive(Clone, Debug)]
pub(super) enum Val {
    Undefined,
    None,
    Bool(bool),
    Int(i64),
    Str(Str),
    List(Arc<List>),
    Map(MapRef),
    /// The loop at this depth.
    Loop(usize),
    /// The namespace of this number.
    Namespace(usize),
    /// The macro of this number.
    Macro(usize),
    /// What is only passed on, such as a float.
    Other(Value),
}

/// A string.
#[derive(Clone, Debug)]
pub(super) enum Str {
    /// One of the template's own, by number.
    Const(u32),
    Short(Arc<str>),
    Part(Part),
    /// Several in a row, none of which is itself a rope.
    Rope(Arc<[Str]>),
}

/// A part of a long text, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) text: Arc<Text>,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Part {
    pub(super) fn as_str(&self) -> &str {
        &self.text.text[self.start as usize..self.end as usize]
    }
}

/// A long text. Equal `id`s are the same text; ids are never used again.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) id: u64,
    pub(super) text: Arc<str>,
    pub(super) memo: Memo,
}

/// What calls of the template gave for a value, by call site and part. A call is a pure function of the
/// value and of constants.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<Vec<(u32, u32, u32, Kept)>>);

/// A result. Parts of the text that it is kept with do not hold that text: it would hold itself for ever.
#[derive(Debug)]
enum Kept {
    Value(Val),
    Part(u32, u32),
    List(Box<[Kept]>),
}

impl Kept {
    fn new(value: &Val, own: Option<&Arc<Text>>) -> Kept {
        match (value, own) {
            (Val::Str(Str::Part(part)), Some(own)) if Arc::ptr_eq(&part.text, own) => {
                Kept::Part(part.start, part.end)
            }
            (Val::List(list), Some(_)) if list.source.is_none() => {
                Kept::List(list.items.iter().map(|item| Kept::new(item, own)).collect())
            }
            _ => Kept::Value(value.clone()),
        }
    }

    fn value(&self, own: Option<&Arc<Text>>) -> Option<Val> {
        Some(match self {
            Kept::Value(value) => value.clone(),
            Kept::Part(start, end) => {
                let text = Arc::clone(own?);
                Val::Str(Str::Part(Part { text, start: *start, end: *end }))
            }
            Kept::List(items) => {
                List::of(items.iter().map(|item| item.value(own)).collect::<Option<_>>()?, false)
            }
        })
    }
}

/// Results that are kept for one value; templates have few calls per value.
const MAX_RESULTS: usize = 32;

impl Memo {
    /// `own` is the text that this belongs to, where it is one.
    pub(super) fn get(&self, site: u32, start: u32, end: u32, own: Option<&Arc<Text>>) -> Option<Val> {
        let results = self.0.lock();
        let found = results.iter().find(|result| (result.0, result.1, result.2) == (site, start, end));
        found.and_then(|result| result.3.value(own))
    }

    pub(super) fn put(&self, site: u32, start: u32, end: u32, own: Option<&Arc<Text>>, value: &Val) {
        let mut results = self.0.lock();
        if results.len() < MAX_RESULTS {
            results.push((site, start, end, Kept::new(value, own)));
        }
    }
}

/// A list, or what minijinja lets a template only walk through and index from its start.
#[derive(Debug)]
pub(super) struct List {
    pub(super) items: Vec<Val>,
    /// It is no list but a slice or what a filter gives.
    pub(super) lazy: bool,
    /// It is a slice, whose length is known.
    pub(super) slice: bool,
    /// It is the messages of the chat from this one on.
    pub(super) chat: Option<usize>,
    /// The same list as minijinja has it, for calls.
    pub(super) source: Option<Value>,
    pub(super) memo: Memo,
    /// Lists inside one another, with this one.
    pub(super) depth: usize,
}

impl List {
    pub(super) fn new(items: Vec<Val>, lazy: bool) -> List {
        let depth = |item: &Val| if let Val::List(list) = item { list.depth } else { 0 };
        let depth = 1 + items.iter().map(depth).max().unwrap_or(0);
        List { items, lazy, slice: false, chat: None, source: None, memo: Memo::default(), depth }
    }

    /// A part of a list, and which messages it is.
    pub(super) fn slice(items: Vec<Val>, chat: Option<usize>) -> Val {
        Val::List(Arc::new(List { slice: true, chat, ..List::new(items, true) }))
    }

    pub(super) fn of(items: Vec<Val>, lazy: bool) -> Val {
        Val::List(Arc::new(List::new(items, lazy)))
    }
}

/// One of several maps that are kept side by side: those that are used together are near each other, and
/// share a count.
#[derive(Clone, Debug)]
pub(super) struct MapRef {
    pub(super) maps: Arc<[Map]>,
    pub(super) at: usize,
}

impl MapRef {
    fn new(map: Map) -> MapRef {
        MapRef { maps: Arc::new([map]), at: 0 }
    }

    pub(super) fn is(&self, other: &MapRef) -> bool {
        self.at == other.at && Arc::ptr_eq(&self.maps, &other.maps)
    }
}

impl Deref for MapRef {
    type Target = Map;

    fn deref(&self) -> &Map {
        &self.maps[self.at]
    }
}

/// A map with names as keys.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) members: Vec<(Arc<str>, Val)>,
    pub(super) source: Value,
    pub(super) memo: Memo,
}

impl Map {
    /// The same with nothing that calls gave for it.
    pub(super) fn copy(&self) -> Map {
        Map { members: self.members.clone(), source: self.source.clone(), memo: Memo::default() }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Val> {
        self.members.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }
}

impl Text {
    pub(super) fn new(text: Arc<str>) -> Arc<Text> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Text { id: NEXT.fetch_add(1, Ordering::Relaxed), text, memo: Memo::default() })
    }
}

impl Str {
    pub(super) fn short(text: &str) -> Str {
        Str::Short(shared(text))
    }

    /// `value`, a string: by reference if it is long.
    fn kept(value: &Value, text: &str) -> Str {
        match (value.to_str(), u32::try_from(text.len())) {
            (Some(shared), Ok(end)) if text.len() >= LONG => {
                Str::Part(Part { text: Text::new(shared), start: 0, end })
            }
            _ => Str::short(text),
        }
    }
}

impl Val {
    /// `value` with long texts by reference (`keep`), or all of it copied.
    pub(super) fn of(value: &Value, keep: bool) -> Val {
        match value.kind() {
            ValueKind::Undefined => Val::Undefined,
            ValueKind::None => Val::None,
            ValueKind::Bool => Val::Bool(value.is_true()),
            ValueKind::Number if value.is_integer() => {
                i64::try_from(value.clone()).map_or_else(|_| Val::Other(value.clone()), Val::Int)
            }
            ValueKind::String => match value.as_str() {
                Some(text) if !value.is_safe() => {
                    Val::Str(if keep { Str::kept(value, text) } else { Str::short(text) })
                }
                _ => Val::Other(value.clone()),
            },
            ValueKind::Seq if !value.is_tuple() => {
                let Ok(items) = value.try_iter() else { return Val::Other(value.clone()) };
                let items = items.map(|item| Val::of(&item, keep)).collect();
                let source = Some(value.clone());
                Val::List(Arc::new(List { source, ..List::new(items, false) }))
            }
            ValueKind::Map => Val::map(value, keep).unwrap_or_else(|| Val::Other(value.clone())),
            _ => Val::Other(value.clone()),
        }
    }

    fn map(value: &Value, keep: bool) -> Option<Val> {
        let mut members = Vec::new();
        for key in value.try_iter().ok()? {
            let name = shared(key.as_str()?);
            members.push((name, Val::of(&value.get_item(&key).ok()?, keep)));
        }
        Some(Val::Map(MapRef::new(Map { members, source: value.clone(), memo: Memo::default() })))
    }

    /// Bytes that it takes, roughly but never less than its texts.
    pub(super) fn weight(&self) -> usize {
        // The same once more as minijinja's value.
        2 * self.own_weight()
    }

    fn own_weight(&self) -> usize {
        const NODE: usize = 64;
        NODE + match self {
            Val::Str(Str::Short(text)) => text.len(),
            Val::Str(Str::Part(part)) => part.text.text.len() + NODE,
            Val::List(list) => list.items.iter().map(Val::own_weight).sum::<usize>() + NODE,
            Val::Map(map) => {
                let members = map.members.iter();
                members.map(|(name, value)| name.len() + NODE + value.own_weight()).sum::<usize>() + NODE
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_does_not_hold_itself() {
        let text = Text::new(Arc::from("  some text "));
        let part = |start, end| Val::Str(Str::Part(Part { text: Arc::clone(&text), start, end }));
        text.memo.put(1, 0, 12, Some(&text), &part(2, 11));
        text.memo.put(2, 0, 12, Some(&text), &List::of(vec![part(0, 3), Val::Bool(true)], false));
        let found =
            |site| format!("{:?}", text.memo.get(site, 0, 12, Some(&text)).map(|found| texts(&found)));
        assert_eq!(found(1), r#"Some(["some text"])"#);
        assert_eq!(found(2), r#"Some(["  s"])"#);
        let watched = Arc::downgrade(&text);
        drop(text);
        assert!(watched.upgrade().is_none());
    }

    fn texts(value: &Val) -> Vec<String> {
        match value {
            Val::Str(Str::Part(part)) => vec![part.as_str().to_owned()],
            Val::List(list) => list.items.iter().flat_map(texts).collect(),
            _ => Vec::new(),
        }
    }
}
