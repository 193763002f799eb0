//! A walk over JSON text that gives raw slices.
//!
//! It is as lenient as Python's `json` (`NaN`, `Infinity`, lone surrogates) and more: what it skips is
//! only checked for closed strings and matching brackets, because the worker reads the body again.

use std::ops::Range;

use super::brackets::{Fault, container_end};
use super::quote::string_end;
use crate::PromptError;

/// Arrays and objects inside one another that are followed; CPython's own `json` gives up no later.
pub const MAX_NESTING: usize = 10_000;

/// What a cursor walks over: text, or bytes that may be none.
pub(crate) trait Text {
    fn bytes(&self) -> &[u8];

    /// The part in `range`, which is none beside ASCII characters.
    fn part(&self, range: Range<usize>) -> &Self;
}

impl Text for str {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn part(&self, range: Range<usize>) -> &str {
        self.get(range).unwrap_or_default()
    }
}

impl Text for [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn part(&self, range: Range<usize>) -> &[u8] {
        self.get(range).unwrap_or_default()
    }
}

/// A place in JSON text.
#[derive(Debug)]
pub(crate) struct Cursor<'a, T: ?Sized = str> {
    text: &'a T,
    at: usize,
}

impl<T: ?Sized> Clone for Cursor<'_, T> {
    fn clone(&self) -> Self {
        Cursor { text: self.text, at: self.at }
    }
}

impl<'a, T: Text + ?Sized> Cursor<'a, T> {
    /// The beginning of `text`.
    pub(crate) fn new(text: &'a T) -> Cursor<'a, T> {
        Cursor { text, at: 0 }
    }

    /// Passes over a byte order mark, as Python does for bytes.
    pub(crate) fn skip_mark(&mut self) {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        if self.text.bytes().starts_with(MARK) {
            self.at = MARK.len();
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
    pub(crate) fn member(&mut self, first: bool) -> Result<Option<(&'a T, &'a T)>, PromptError> {
        let Some(key) = self.key(first)? else { return Ok(None) };
        Ok(Some((key, self.value()?)))
    }

    /// The next element of the array that was entered, raw; as [`Cursor::member`] otherwise.
    pub(crate) fn element(&mut self, first: bool) -> Result<Option<&'a T>, PromptError> {
        if self.ends(b']', first)? { Ok(None) } else { self.value().map(Some) }
    }

    /// The raw name (with quotes) of the next member of the object that was entered; its value is next.
    pub(crate) fn key(&mut self, first: bool) -> Result<Option<&'a T>, PromptError> {
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
        if self.at == self.text.bytes().len() { Ok(()) } else { Err(self.fault("the end of the body")) }
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
    pub(crate) fn value(&mut self) -> Result<&'a T, PromptError> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => self.at = self.string_end(start)?,
            Some(b'{' | b'[') => self.skip_container()?,
            Some(b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => {
                let rest = &self.text.bytes()[start..];
                self.at += rest.iter().position(|byte| !is_scalar(*byte)).unwrap_or(rest.len());
            }
            _ => return Err(self.fault("a value")),
        }
        Ok(self.text.part(start..self.at))
    }

    fn skip_container(&mut self) -> Result<(), PromptError> {
        let bytes = self.text.bytes();
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
        string_end(self.text.bytes(), start + 1)
            .ok_or(PromptError::Syntax { at: self.text.bytes().len(), expected: "the end of a string" })
    }

    /// What lies between here and `end`, a later place in the same text.
    pub(crate) fn up_to(&self, end: &Cursor<'a, T>) -> &'a T {
        self.text.part(self.at..end.at)
    }

    /// What lies from here on.
    pub(crate) fn rest(&self) -> &'a T {
        self.text.part(self.at..self.text.bytes().len())
    }

    /// Bytes passed.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Passes over `bytes` that are known to be whole values.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// The byte that is next.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.bytes().get(self.at).copied()
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
