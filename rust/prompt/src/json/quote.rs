//! Where a JSON string ends.

use wide::u8x16;

/// Bytes that are looked at together, one bit each.
pub(super) const BLOCK: usize = 64;

/// The offset behind the quote that ends the string whose text begins at `from`.
///
/// Prose has an escape every line and JSON in a string one every few bytes, so stopping at each costs more
/// than finding them all, a block at a time.
pub(super) fn string_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // Whether the first byte of the block is escaped by the last one before it.
    let mut escaped = 0;
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>) {
        let backslashes = positions(block, b'\\');
        let quotes = positions(block, b'"');
        let ends = if backslashes | escaped == 0 {
            quotes
        } else {
            quotes & !escaped_bytes(backslashes, &mut escaped)
        };
        if ends != 0 {
            return Some(at + ends.trailing_zeros() as usize + 1);
        }
        at += BLOCK;
    }
    let mut escaped = escaped != 0;
    for (offset, byte) in bytes.get(at..)?.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + offset + 1),
            _ => {}
        }
    }
    None
}

/// A bit for each byte of `block` that is `wanted`.
pub(super) fn positions(block: &[u8; BLOCK], wanted: u8) -> u64 {
    let wanted = u8x16::splat(wanted);
    bits(block, |part| part.simd_eq(wanted))
}

/// A bit for each byte of `block` that is a bracket.
pub(super) fn brackets(block: &[u8; BLOCK]) -> u64 {
    // '[' and ']' are '{' and '}' without this bit.
    let bit = u8x16::splat(0x20);
    let (open, close) = (u8x16::splat(b'{'), u8x16::splat(b'}'));
    bits(block, |part| (part | bit).simd_eq(open) | (part | bit).simd_eq(close))
}

fn bits(block: &[u8; BLOCK], find: impl Fn(u8x16) -> u8x16) -> u64 {
    let (parts, _) = block.as_chunks::<16>();
    parts.iter().rev().fold(0, |bits, part| bits << 16 | u64::from(find(u8x16::new(*part)).to_bitmask()))
}

/// A bit for each byte that a backslash escapes. `carry` is whether the first byte is, and then whether the
/// first byte of the next block is.
///
/// Every second backslash of a run escapes nothing: adding the runs that begin at odd bits to the bits of all
/// backslashes carries through each of them, which gives the parity of where it ends.
pub(super) fn escaped_bytes(backslashes: u64, carry: &mut u64) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let active = backslashes & !*carry;
    let follows = active << 1 | *carry;
    let odd_starts = active & !EVEN & !follows;
    let (even_runs, overflows) = odd_starts.overflowing_add(active);
    *carry = u64::from(overflows);
    (EVEN ^ (even_runs << 1)) & follows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Byte by byte.
    fn reference(bytes: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            match bytes.get(at)? {
                b'"' => return Some(at + 1),
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn ends_where_a_walk_ends(
            filling in prop::collection::vec((prop::sample::select(vec![b'a', b'\\', b'\\', b'\\', 0xE3]), 1_usize..40), 0..40),
            end in prop::collection::vec(prop::sample::select(vec![b'"', b'\\', b'b']), 0..5),
            from in 0_usize..5,
        ) {
            let mut bytes: Vec<u8> = filling.into_iter().flat_map(|(byte, times)| vec![byte; times]).collect();
            bytes.extend(end);
            bytes.extend([b'x'; 70]);
            bytes.extend(b"\" \"");
            prop_assert_eq!(string_end(&bytes, from), reference(&bytes, from));
        }
    }
}
