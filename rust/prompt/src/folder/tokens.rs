//! Tokens that the files beside `tokenizer.json` declare: which exist, and which have names.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// What the configuration says of tokens, as transformers reads it.
#[derive(Debug)]
pub(super) struct Declared<'a> {
    /// `added_tokens_decoder`, in the order of ids; its flags stand above those of `tokenizer.json`.
    decoder: Option<Vec<&'a Value>>,
    /// Tokens of the legacy `added_tokens.json`, in the order of ids.
    legacy: Vec<&'a str>,
    /// `bos_token` and the like.
    named: Vec<(&'a str, &'a Value)>,
    /// Special tokens without a name.
    extra: Vec<&'a Value>,
}

impl<'a> Declared<'a> {
    pub(super) fn new(config: &'a Object, map: &'a Object, added: &'a Object) -> Declared<'a> {
        let decoder = config.get("added_tokens_decoder").and_then(Value::as_object).map(by_id);
        // The legacy files count only where the configuration has no list, and then above it.
        let legacy_files = decoder.is_none();
        let map = if legacy_files { map } else { &*NONE };
        let mut legacy: Vec<(u64, &str)> =
            added.iter().filter_map(|(t, id)| Some((id.as_u64()?, &**t))).collect();
        legacy.sort_unstable();
        let legacy = legacy.into_iter().filter(|_| legacy_files).map(|(_, token)| token).collect();
        let is_named = |(name, token): (&'a String, &'a Value)| {
            (name.ends_with("_token") && content(token).is_some()).then_some((name.as_str(), token))
        };
        let mut named: Vec<_> = map.iter().filter_map(is_named).collect();
        for (name, token) in config.iter().filter_map(is_named) {
            if !named.iter().any(|(known, _)| *known == name) {
                named.push((name, token));
            }
        }
        named.sort_unstable_by_key(|(name, _)| {
            (STANDARD.iter().position(|known| known == name).unwrap_or(9), *name)
        });
        Declared { decoder, legacy, named, extra: extra(map).or_else(|| extra(config)).unwrap_or_default() }
    }

    fn is_special(&self, text: &str) -> bool {
        let special = self.named.iter().map(|(_, token)| *token).chain(self.extra.iter().copied());
        special.filter_map(content).any(|token| token == text)
    }

    /// Names and texts, as templates see them.
    pub(super) fn named(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.named.iter().filter_map(|(name, token)| Some((*name, content(token)?)))
    }
}

/// The order in which transformers adds the tokens that have names.
const STANDARD: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

static NONE: LazyLock<Object> = LazyLock::new(Map::new);

/// A token is written as a string, or as an object with its text in `content`.
fn content(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}

fn by_id(decoder: &Object) -> Vec<&Value> {
    let mut tokens: Vec<(u64, &Value)> =
        decoder.iter().filter_map(|(id, token)| Some((id.parse().ok()?, token))).collect();
    tokens.sort_unstable_by_key(|(id, _)| *id);
    tokens.into_iter().map(|(_, token)| token).collect()
}

fn extra(config: &Object) -> Option<Vec<&Value>> {
    let of = |name: &str| match config.get(name)? {
        Value::Array(tokens) if !tokens.is_empty() => Some(tokens.iter().collect()),
        Value::Object(tokens) if !tokens.is_empty() => Some(tokens.values().collect()),
        _ => None,
    };
    of("extra_special_tokens").or_else(|| of("additional_special_tokens"))
}

/// Adds what is declared to `added_tokens`, and takes out padding and truncation, which no request to a worker
/// uses.
pub(super) fn complete(tokenizer: &mut Value, declared: &Declared<'_>) {
    let Some(object) = tokenizer.as_object_mut() else { return };
    object.insert("padding".to_owned(), Value::Null);
    object.insert("truncation".to_owned(), Value::Null);
    let Value::Array(list) = object.entry("added_tokens").or_insert_with(|| json!([])).take() else { return };
    let mut added = Added::new(list, object.get("model").unwrap_or(&Value::Null));
    for token in declared.decoder.iter().flatten() {
        added.put(token, false, true);
    }
    for token in &declared.legacy {
        added.put(&json!({"content": token, "normalized": !declared.is_special(token)}), false, false);
    }
    for token in declared.named.iter().map(|(_, token)| *token).chain(declared.extra.iter().copied()) {
        added.put(token, true, false);
    }
    let list = added.list;
    object.insert("added_tokens".to_owned(), Value::Array(list));
}

/// A growing `added_tokens`.
struct Added<'a> {
    list: Vec<Value>,
    places: HashMap<String, usize>,
    vocabulary: &'a Value,
    next: u64,
}

impl<'a> Added<'a> {
    fn new(list: Vec<Value>, model: &'a Value) -> Added<'a> {
        let vocabulary = &model["vocab"];
        let size = vocabulary.as_object().map(Map::len).or(vocabulary.as_array().map(Vec::len)).unwrap_or(0);
        let highest = list.iter().filter_map(|token| token["id"].as_u64()).max();
        let next = highest.map_or(0, |id| id + 1).max(size as u64);
        let place = |(at, token): (usize, &Value)| Some((content(token)?.to_owned(), at));
        let places = list.iter().enumerate().filter_map(place).collect();
        Added { list, places, vocabulary, next }
    }

    /// Adds `token`, or gives it its declared flags where it `overrides` the one that is there.
    fn put(&mut self, token: &Value, special: bool, overrides: bool) {
        let Some(text) = content(token).filter(|text| !text.is_empty()) else { return };
        let known = self.places.get(text).copied();
        if known.is_some() && !overrides {
            return;
        }
        let flag = |name: &str, default| token.get(name).and_then(Value::as_bool).unwrap_or(default);
        let special = flag("special", special);
        let mut made = json!({
            "id": 0,
            "content": text,
            "single_word": flag("single_word", false),
            "lstrip": flag("lstrip", false),
            "rstrip": flag("rstrip", false),
            "normalized": flag("normalized", !special),
            "special": special,
        });
        if let Some(at) = known {
            made["id"] = self.list[at]["id"].take();
            self.list[at] = made;
            return;
        }
        made["id"] = self.in_vocabulary(text).unwrap_or(self.next).into();
        self.next = self.next.max(made["id"].as_u64().map_or(0, |id| id + 1));
        self.places.insert(text.to_owned(), self.list.len());
        self.list.push(made);
    }

    fn in_vocabulary(&self, text: &str) -> Option<u64> {
        match self.vocabulary {
            Value::Object(tokens) => tokens.get(text)?.as_u64(),
            Value::Array(pieces) => Some(pieces.iter().position(|piece| piece[0] == *text)? as u64),
            _ => None,
        }
    }
}
