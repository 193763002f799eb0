//! Where things are in a body.

use std::ops::Range;

use crate::PromptError;
use crate::cache::Passed;
use crate::json::{Cursor, unescape};

/// The places of everything in a body.
#[derive(Default)]
pub(super) struct Found<'a> {
    pub(super) members: Vec<(&'a [u8], &'a [u8])>,
    /// The elements of `messages`: what finds its end passes them anyway.
    pub(super) elements: Vec<&'a [u8]>,
    /// The messages that are known, and all of `messages`, which is then no member.
    pub(super) passed: Option<(Passed, &'a [u8])>,
    /// Where those are that are known.
    pub(super) known: Range<usize>,
}

impl<'a> Found<'a> {
    pub(super) fn of(
        body: &'a [u8],
        pass: &dyn Fn(&[u8]) -> Option<Passed>,
    ) -> Result<Found<'a>, PromptError> {
        let mut found = Found { members: Vec::with_capacity(16), ..Found::default() };
        let mut cursor = Cursor::new(body);
        cursor.skip_mark();
        cursor.enter(b'{', "an object")?;
        let mut first = true;
        while let Some(key) = cursor.key(first)? {
            first = false;
            let is_array = key == b"\"messages\"" && cursor.peek() == Some(b'[');
            // Of a second one, as of everything that is refused, nothing is taken for known.
            let again = found.known.end > 0 || !found.elements.is_empty();
            match is_array && !again && found.messages(key, &mut cursor, pass) {
                true => {}
                false if found.known.end > 0 && names_messages(key) => {
                    return Found::of(body, &|_| None);
                }
                false => found.member(key, cursor.value()?),
            }
        }
        cursor.finish()?;
        Ok(found)
    }

    fn member(&mut self, key: &'a [u8], value: &'a [u8]) {
        if names_messages(key) {
            self.elements.clear();
        }
        self.members.push((key, value));
    }

    /// Passes over an array and notes its elements; false where it has a fault that is not looked for here.
    fn messages(
        &mut self,
        key: &'a [u8],
        cursor: &mut Cursor<'a, [u8]>,
        pass: &dyn Fn(&[u8]) -> Option<Passed>,
    ) -> bool {
        let mut inside = cursor.clone();
        inside.pass(1);
        inside.skip_space();
        let from = inside.at();
        let passed = pass(inside.rest());
        inside.pass(passed.as_ref().map_or(0, |passed| passed.length));
        let (known, mut elements) = (from..inside.at(), Vec::new());
        loop {
            match inside.element(passed.is_none() && elements.is_empty()) {
                Ok(Some(element)) => elements.push(element),
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        let raw = cursor.up_to(&inside);
        *cursor = inside;
        self.elements = elements;
        match passed {
            Some(passed) => (self.passed, self.known) = (Some((passed, raw)), known),
            None => self.members.push((key, raw)),
        }
        true
    }
}

/// Whether `key` is `messages`, however it is written.
fn names_messages(key: &[u8]) -> bool {
    std::str::from_utf8(key).ok().and_then(unescape).is_some_and(|name| name == "messages")
}

/// The text of `part`, a part of `body`, of which `texts` are the texts with where they begin.
pub(super) fn text_of<'a>(body: &'a [u8], texts: &[(usize, &'a str); 2], part: &'a [u8]) -> &'a str {
    let at = (part.as_ptr() as usize).wrapping_sub(body.as_ptr() as usize);
    let found = texts.iter().find_map(|(start, text)| {
        let from = at.checked_sub(*start)?;
        text.get(from..from.checked_add(part.len())?)
    });
    found.unwrap_or_default()
}
