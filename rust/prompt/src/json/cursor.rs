//! A walk over JSON text that gives raw slices.
//!
//! It is as lenient as Python's `json` (`NaN`, `Infinity`, lone surrogates) and more: what it skips is
//! only checked for closed strings and matching brackets, because the worker reads the body again.

use super::brackets::{Fault, container_end};
use super::quote::string_end;
use crate::PromptError;

/// Arrays and objects inside one another that are followed; CPython's own `json` gives up no later.
pub const MAX_NESTING: usize = 10_000;

/// A place in JSON text.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The beginning of `text`.
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    /// Passes over a byte order mark, as Python does for bytes.
    pub(crate) fn skip_mark(&mut self) {
        if self.text.starts_with('\u{feff}') {
            self.at = '\u{feff}'.len_utf8();
        }
    }

    /// Enters an array or object: passes `open`, the bracket it begins with.
    pub(crate) fn enter(&mut self, open: u8, expected: &'static str) -> Result<(), PromptError> {
        self.skip_space();
        if self.peek() != Some(open) {
            return Err(self.fault(expected));
        }
        self.at += 1;
        Ok(())
    }

    /// The next member of the object that was entered, as raw name (with quotes) and raw value.
    ///
    /// `first` is true for the first call after [`Cursor::enter`]. `None` is the object's end, passed.
    pub(crate) fn member(&mut self, first: bool) -> Result<Option<(&'a str, &'a str)>, PromptError> {
        let Some(key) = self.key(first)? else { return Ok(None) };
        Ok(Some((key, self.value()?)))
    }

    /// The next element of the array that was entered, raw; as [`Cursor::member`] otherwise.
    pub(crate) fn element(&mut self, first: bool) -> Result<Option<&'a str>, PromptError> {
        if self.ends(b']', first)? { Ok(None) } else { self.value().map(Some) }
    }

    /// The raw name (with quotes) of the next member of the object that was entered; its value is next.
    pub(crate) fn key(&mut self, first: bool) -> Result<Option<&'a str>, PromptError> {
        if self.ends(b'}', first)? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(self.fault("a name in double quotes"));
        }
        let key = self.value()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.fault("':'"));
        }
        self.at += 1;
        self.skip_space();
        Ok(Some(key))
    }

    /// Requires that nothing but space is left.
    pub(crate) fn finish(&mut self) -> Result<(), PromptError> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.fault("the end of the body")) }
    }

    /// Passes what stands before the next item of a container; true at its `close`, also passed.
    pub(crate) fn ends(&mut self, close: u8, first: bool) -> Result<bool, PromptError> {
        self.skip_space();
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                return Ok(true);
            }
            _ if first => {}
            Some(b',') => self.at += 1,
            _ => return Err(self.fault("',' or the end of the array or object")),
        }
        self.skip_space();
        Ok(false)
    }

    /// The value that begins here, raw, passed over.
    pub(crate) fn value(&mut self) -> Result<&'a str, PromptError> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => self.at = self.string_end(start)?,
            Some(b'{' | b'[') => self.skip_container()?,
            Some(b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => {
                let rest = &self.text.as_bytes()[start..];
                self.at += rest.iter().position(|byte| !is_scalar(*byte)).unwrap_or(rest.len());
            }
            _ => return Err(self.fault("a value")),
        }
        Ok(&self.text[start..self.at])
    }

    fn skip_container(&mut self) -> Result<(), PromptError> {
        let bytes = self.text.as_bytes();
        self.at = container_end(bytes, self.at, MAX_NESTING).map_err(|fault| match fault {
            Fault::TooDeep(at) => PromptError::TooDeep { at },
            Fault::Unmatched(at) => {
                PromptError::Syntax { at, expected: "the bracket that matches the one opened last" }
            }
            Fault::Backslash(at) => PromptError::Syntax { at, expected: "no backslash outside a string" },
            Fault::OpenString => PromptError::Syntax { at: bytes.len(), expected: "the end of a string" },
            Fault::Open => PromptError::Syntax { at: bytes.len(), expected: "the end of an array or object" },
        })?;
        Ok(())
    }

    /// The offset behind the string that begins at `start`.
    fn string_end(&self, start: usize) -> Result<usize, PromptError> {
        string_end(self.text.as_bytes(), start + 1)
            .ok_or(PromptError::Syntax { at: self.text.len(), expected: "the end of a string" })
    }

    /// What lies between here and `end`, a later place in the same text.
    pub(crate) fn up_to(&self, end: &Cursor<'a>) -> &'a str {
        self.text.get(self.at..end.at).unwrap_or_default()
    }

    /// The byte that is next.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes over space.
    pub(crate) fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn fault(&self, expected: &'static str) -> PromptError {
        PromptError::Syntax { at: self.at, expected }
    }
}

fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}
