//! The `prompt` of `/v1/completions`, which has four forms.

use crate::PromptError;
use crate::json::Cursor;

/// The prompt a completion is routed by: of several, the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Completion<'a> {
    /// A string, raw, with its quotes.
    Text(&'a str),
    /// Token ids, packed as little-endian `u32`.
    Ids(Vec<u8>),
}

/// The forms, in words.
pub(crate) const ALLOWED: &str =
    "a string, an array of strings, an array of token ids or an array of arrays of token ids";
const WRONG: PromptError = PromptError::WrongType { field: "prompt", allowed: ALLOWED };

impl<'a> Completion<'a> {
    /// Reads `raw`, the value of `prompt`.
    ///
    /// # Errors
    /// [`PromptError::WrongType`], and [`PromptError::TokenId`] for an id that is not one.
    pub(crate) fn read(raw: &'a str) -> Result<Completion<'a>, PromptError> {
        if raw.starts_with('"') {
            return Ok(Completion::Text(raw));
        }
        let mut cursor = Cursor::new(raw);
        cursor.enter(b'[', ALLOWED).map_err(|_| WRONG)?;
        let first = cursor.element(true).map_err(|_| WRONG)?.ok_or(WRONG)?;
        match first.as_bytes().first() {
            Some(b'"') => Ok(Completion::Text(first)),
            Some(b'[') => ids(first).map(Completion::Ids),
            _ => ids(raw).map(Completion::Ids),
        }
    }
}

/// The ids of `raw`, an array of numbers.
fn ids(raw: &str) -> Result<Vec<u8>, PromptError> {
    let mut cursor = Cursor::new(raw);
    cursor.enter(b'[', ALLOWED).map_err(|_| WRONG)?;
    // An id takes five or six bytes as JSON and four packed.
    let mut packed = Vec::with_capacity(raw.len() / 5 * 4);
    let mut index = 0;
    while let Some(number) = cursor.element(index == 0).map_err(|_| WRONG)? {
        packed.extend_from_slice(&id(number, index)?.to_le_bytes());
        index += 1;
    }
    Ok(packed)
}

fn id(number: &str, index: usize) -> Result<u32, PromptError> {
    if let Ok(id) = number.parse() {
        return Ok(id);
    }
    // A float without a fraction is an integer for the worker's validation.
    match number.parse::<f64>() {
        Ok(value) if value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) => Ok(value as u32),
        Ok(_) => Err(PromptError::TokenId { index, value: number.chars().take(32).collect() }),
        Err(_) => Err(WRONG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(ids: &[u32]) -> Completion<'static> {
        Completion::Ids(ids.iter().flat_map(|id| id.to_le_bytes()).collect())
    }

    #[test]
    fn takes_every_form_and_the_first_of_several() {
        assert_eq!(Completion::read(r#""a""#), Ok(Completion::Text("\"a\"")));
        assert_eq!(Completion::read(r#"["a", "b"]"#), Ok(Completion::Text("\"a\"")));
        assert_eq!(Completion::read("[ 1,2 , 4294967295]"), Ok(packed(&[1, 2, u32::MAX])));
        assert_eq!(Completion::read("[[1, 2], [3]]"), Ok(packed(&[1, 2])));
        assert_eq!(Completion::read("[[]]"), Ok(packed(&[])));
        assert_eq!(Completion::read("[1.0, 2e1]"), Ok(packed(&[1, 20])));
    }

    #[test]
    fn names_an_id_that_is_not_one() {
        for value in ["-1", "4294967296", "1.5", "NaN"] {
            let error = Completion::read(&format!("[7, {value}]")).unwrap_err();
            assert_eq!(error, PromptError::TokenId { index: 1, value: value.to_owned() });
        }
        let long = Completion::read(&format!("[{}]", "9".repeat(100_000))).unwrap_err();
        assert!(matches!(long, PromptError::TokenId { value, .. } if value.len() == 32));
    }

    #[test]
    fn names_the_field_of_a_wrong_type() {
        for raw in ["7", "{}", "[]", "[{}]", "[null]", "[true]", "[1, \"a\"]", "[1 2]", "[[\"a\"]]"] {
            assert_eq!(Completion::read(raw), Err(WRONG), "{raw}");
        }
    }
}
