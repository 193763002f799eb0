//! A rendered text with long parts by reference, cut into pieces.

use std::sync::Arc;

use super::program::Program;
use super::safe::Place;
use super::value::{LONG, Part, Str};

/// Stands before a reference in a key; no byte of UTF-8 has this value.
const REFERENCE: u8 = 0xFF;

/// A piece has at least so many bytes of text, so that a segment is worth its bookkeeping.
const MIN_PIECE: usize = 256;

/// What a template wrote.
pub(super) struct Skeleton<'p> {
    program: Option<&'p Program>,
    /// Safe tokens in the template's constants.
    places: &'p [Vec<Place>],
    /// The text, where a long part is [`REFERENCE`], the text's id and where the part starts and ends. Equal
    /// keys are equal texts.
    key: Vec<u8>,
    parts: Vec<Held>,
    /// Bytes of the text.
    length: usize,
    cuts: Vec<Cut>,
}

/// A long part of the text, which is only read where its ids are not known.
enum Held {
    Own(Part),
    /// That of this number in a fragment: holding a fragment touches none of its texts.
    Of(Arc<Fragment>, usize),
}

impl Held {
    fn part(&self) -> Option<&Part> {
        match self {
            Held::Own(part) => Some(part),
            Held::Of(fragment, number) => fragment.parts.get(*number),
        }
    }

    fn as_str(&self) -> &str {
        self.part().map_or("", Part::as_str)
    }
}

/// What was written from one place on, to be written again.
#[derive(Debug)]
pub(super) struct Fragment {
    key: Box<[u8]>,
    parts: Box<[Part]>,
    /// Bytes of its text.
    pub(super) length: usize,
    /// Counted from where it begins.
    cuts: Box<[Cut]>,
}

/// How much was written.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    key: usize,
    parts: usize,
    length: usize,
    cuts: usize,
}

/// A safe token in the text.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Where it is in the key.
    key: (usize, usize),
    /// Where it is in the text.
    start: usize,
    end: usize,
    /// Parts before it.
    parts: usize,
    id: u32,
}

/// A run of the text, from one safe token to another and with both.
pub(super) struct Piece<'s> {
    pub(super) key: &'s [u8],
    /// Where it begins in the key of the whole.
    from: usize,
    /// The id of the token that it begins with, which belongs to the piece before it.
    pub(super) begins: Option<u32>,
    /// Bytes of its text.
    pub(super) length: usize,
    parts: &'s [Held],
}

impl<'p> Skeleton<'p> {
    pub(super) fn new(program: &'p Program, places: &'p [Vec<Place>]) -> Skeleton<'p> {
        let (key, parts, cuts) = (Vec::with_capacity(8192), Vec::with_capacity(64), Vec::with_capacity(128));
        Skeleton { program: Some(program), places, key, parts, length: 0, cuts }
    }

    /// A text with the safe tokens in it.
    pub(super) fn of(text: &str, places: impl Iterator<Item = Place>) -> Skeleton<'static> {
        let key = text.as_bytes().to_vec();
        let mut whole = Skeleton {
            program: None,
            places: &[],
            key,
            parts: Vec::new(),
            length: text.len(),
            cuts: Vec::new(),
        };
        whole.mark_cuts(0, 0, places);
        whole
    }

    /// Appends `text`.
    pub(super) fn push(&mut self, text: &Str) {
        match text {
            Str::Const(number) => {
                let (key, start) = (self.key.len(), self.length);
                let constant = self.program.and_then(|program| program.constants.get(*number as usize));
                self.push_plain(constant.map_or("", |text| text));
                let places = self.places.get(*number as usize);
                self.mark_cuts(key, start, places.into_iter().flatten().copied());
            }
            Str::Short(text) => self.push_plain(text),
            Str::Part(part) if part.as_str().len() < LONG => self.push_plain(part.as_str()),
            Str::Part(part) => {
                let mut reference = [REFERENCE; 17];
                reference[1..9].copy_from_slice(&part.text.id.to_le_bytes());
                reference[9..13].copy_from_slice(&part.start.to_le_bytes());
                reference[13..].copy_from_slice(&part.end.to_le_bytes());
                self.key.extend_from_slice(&reference);
                self.length += part.as_str().len();
                self.parts.push(Held::Own(part.clone()));
            }
            Str::Rope(parts) => parts.iter().for_each(|part| self.push(part)),
        }
    }

    pub(super) fn mark(&self) -> Mark {
        let (key, parts, length, cuts) = (self.key.len(), self.parts.len(), self.length, self.cuts.len());
        Mark { key, parts, length, cuts }
    }

    /// What was written since `mark`.
    pub(super) fn since(&self, mark: Mark) -> Fragment {
        let cuts = self.cuts[mark.cuts..].iter().map(|cut| Cut {
            key: (cut.key.0 - mark.key, cut.key.1 - mark.key),
            start: cut.start - mark.length,
            end: cut.end - mark.length,
            parts: cut.parts - mark.parts,
            id: cut.id,
        });
        let parts = self.parts[mark.parts..].iter().filter_map(Held::part).cloned();
        Fragment {
            key: self.key[mark.key..].into(),
            parts: parts.collect(),
            length: self.length - mark.length,
            cuts: cuts.collect(),
        }
    }

    /// Writes `fragment` again.
    pub(super) fn append(&mut self, fragment: &Arc<Fragment>) {
        let Mark { key, parts, length, .. } = self.mark();
        self.cuts.extend(fragment.cuts.iter().map(|cut| Cut {
            key: (cut.key.0 + key, cut.key.1 + key),
            start: cut.start + length,
            end: cut.end + length,
            parts: cut.parts + parts,
            id: cut.id,
        }));
        self.key.extend_from_slice(&fragment.key);
        self.parts.extend((0..fragment.parts.len()).map(|number| Held::Of(Arc::clone(fragment), number)));
        self.length += fragment.length;
    }

    fn push_plain(&mut self, text: &str) {
        self.key.extend_from_slice(text.as_bytes());
        self.length += text.len();
    }

    fn mark_cuts(&mut self, key: usize, start: usize, places: impl Iterator<Item = Place>) {
        let parts = self.parts.len();
        self.cuts.extend(places.map(|place| Cut {
            key: (key + place.start, key + place.end),
            start: start + place.start,
            end: start + place.end,
            parts,
            id: place.id,
        }));
    }

    /// The key of the text that `pieces`, which are neighbours, make up.
    pub(super) fn key_of(&self, pieces: &[Piece<'_>]) -> &[u8] {
        let bounds = pieces.first().zip(pieces.last());
        bounds
            .and_then(|(first, last)| self.key.get(first.from..last.from + last.key.len()))
            .unwrap_or_default()
    }

    /// The pieces, in order. Where one ends depends on the text before and in it only.
    pub(super) fn pieces(&self) -> Vec<Piece<'_>> {
        let mut pieces = Vec::with_capacity(self.cuts.len() + 1);
        let mut from = Cut { key: (0, 0), start: 0, end: 0, parts: 0, id: 0 };
        let mut begins = None;
        for cut in &self.cuts {
            if cut.end - from.start < MIN_PIECE {
                continue;
            }
            let parts = &self.parts[from.parts..cut.parts];
            let key = &self.key[from.key.0..cut.key.1];
            pieces.push(Piece { key, from: from.key.0, begins, length: cut.end - from.start, parts });
            (from, begins) = (*cut, Some(cut.id));
        }
        if begins.is_none() || from.end < self.length {
            let parts = &self.parts[from.parts..];
            let key = &self.key[from.key.0..];
            pieces.push(Piece { key, from: from.key.0, begins, length: self.length - from.start, parts });
        }
        pieces
    }
}

impl Piece<'_> {
    /// Its text; `None` cannot happen for a key made here.
    pub(super) fn text(&self) -> Option<String> {
        let mut text = String::with_capacity(self.length);
        let mut rest = self.key;
        for part in self.parts {
            let at = memchr::memchr(REFERENCE, rest)?;
            text.push_str(std::str::from_utf8(&rest[..at]).ok()?);
            text.push_str(part.as_str());
            rest = rest.get(at + 17..)?;
        }
        text.push_str(std::str::from_utf8(rest).ok()?);
        Some(text)
    }
}
