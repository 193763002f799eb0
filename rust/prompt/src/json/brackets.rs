//! Where an array or object ends.

use smallvec::SmallVec;

use super::quote::{BLOCK, brackets, escaped_bytes, positions};

/// Why the end of an array or object was not found, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// More are inside one another than are followed.
    TooDeep(usize),
    /// A bracket that does not match the one opened last.
    Unmatched(usize),
    /// A backslash that is in no string.
    Backslash(usize),
    /// The text ends in a string.
    OpenString,
    /// The text ends before the last bracket.
    Open,
}

/// The offset behind the bracket that matches the one at `from`, with at most `depth` inside one another.
///
/// Tools are many short strings: looking for the end of each costs more than telling, a block at a time,
/// which brackets are in none.
pub(super) fn container_end(bytes: &[u8], from: usize, depth: usize) -> Result<usize, Fault> {
    let mut open: SmallVec<[u8; 64]> = SmallVec::new();
    let (mut at, mut scan) = (from, Scan::default());
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let mut last = [b' '; BLOCK];
        let block = rest.first_chunk().unwrap_or_else(|| {
            last[..rest.len()].copy_from_slice(rest);
            &last
        });
        let Marks { mut brackets, backslashes } = scan.next(block);
        let stray = backslashes.trailing_zeros();
        while brackets.trailing_zeros() < stray {
            let found = at + brackets.trailing_zeros() as usize;
            match bytes[found] {
                b'{' | b'[' if open.len() == depth => return Err(Fault::TooDeep(found)),
                // In ASCII the closing one is two places behind.
                bracket @ (b'{' | b'[') => open.push(bracket + 2),
                bracket if open.pop() != Some(bracket) => return Err(Fault::Unmatched(found)),
                _ if open.is_empty() => return Ok(found + 1),
                _ => {}
            }
            brackets &= brackets - 1;
        }
        if backslashes != 0 {
            return Err(Fault::Backslash(at + stray as usize));
        }
        at += BLOCK;
    }
    Err(if scan.inside == 0 { Fault::Open } else { Fault::OpenString })
}

/// What is carried from one block to the next.
#[derive(Default)]
struct Scan {
    /// Whether the first byte is escaped.
    escaped: u64,
    /// All bits where the block begins inside a string.
    inside: u64,
}

/// A bit for each such byte that is in no string.
#[derive(Default)]
struct Marks {
    brackets: u64,
    backslashes: u64,
}

impl Scan {
    fn next(&mut self, block: &[u8; BLOCK]) -> Marks {
        let backslashes = positions(block, b'\\');
        let mut quotes = positions(block, b'"');
        if backslashes | self.escaped != 0 {
            quotes &= !escaped_bytes(backslashes, &mut self.escaped);
        }
        if quotes == 0 && self.inside != 0 {
            return Marks::default();
        }
        // A bit for each byte from an opening quote to before the closing one.
        let mut inside = quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            inside ^= inside << shift;
        }
        inside ^= self.inside;
        self.inside = if inside >> 63 == 1 { u64::MAX } else { 0 };
        Marks { brackets: brackets(block) & !inside, backslashes: backslashes & !inside }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Byte by byte.
    fn reference(bytes: &[u8], from: usize, depth: usize) -> Result<usize, Fault> {
        let (mut open, mut at) = (Vec::new(), from);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => loop {
                    at += 1;
                    match bytes.get(at) {
                        None => return Err(Fault::OpenString),
                        Some(b'\\') => at += 1,
                        Some(b'"') => break,
                        Some(_) => {}
                    }
                },
                b'\\' => return Err(Fault::Backslash(at)),
                b'{' | b'[' if open.len() == depth => return Err(Fault::TooDeep(at)),
                b'{' => open.push(b'}'),
                b'[' => open.push(b']'),
                b'}' | b']' if open.pop() != Some(*byte) => return Err(Fault::Unmatched(at)),
                b'}' | b']' if open.is_empty() => return Ok(at + 1),
                _ => {}
            }
            at += 1;
        }
        Err(Fault::Open)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        #[test]
        fn ends_where_a_walk_ends(
            pieces in prop::collection::vec(
                prop_oneof![
                    6 => prop::sample::select(vec!["{", "}", "[", "]", "\"", ":", ",", "\u{3b}\u{3d}", " "]),
                    2 => prop::sample::select(vec!["\\", "\\\\\\\"", "{}", "[[{}]]", "\"\"", "\"a]\"", "日本"]),
                    1 => Just("x y z x y z x y z x y z x y z x y z x y z x y z x y z x y z x y z x y z x"),
                ],
                0..40,
            ),
            depth in 1_usize..9,
        ) {
            let text = format!("xx[{}", pieces.concat());
            prop_assert_eq!(
                container_end(text.as_bytes(), 2, depth),
                reference(text.as_bytes(), 2, depth),
                "{}", text
            );
        }

        #[test]
        fn ends_of_what_is_valid(pieces in prop::collection::vec(prop::sample::select(vec!["{}", "[]", "\"]\\\"\"", "1", "[[\"\\\\\"],{}]"]), 0..60)) {
            let text = format!("[{}]", pieces.join(","));
            prop_assert_eq!(container_end(format!("{text}]").as_bytes(), 0, 5), Ok(text.len()));
        }
    }
}
