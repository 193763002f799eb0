//! Random changes to seeds.

use fastrand::Rng;

use super::seeds::WORDS;

/// [`mutate_with`] the words of bodies and templates.
pub fn mutate(rng: &mut Rng, bytes: &[u8], longest: usize) -> Vec<u8> {
    mutate_with(rng, bytes, &WORDS.map(str::as_bytes), longest)
}

/// `bytes` after a few random changes: bytes, words, pieces moved, doubled, repeated, nested or cut.
pub fn mutate_with(rng: &mut Rng, bytes: &[u8], words: &[&[u8]], longest: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.usize(1..6) {
        let at = rng.usize(..=bytes.len());
        let end = at + rng.usize(..=(bytes.len() - at).min(64));
        let piece = bytes[at..end].to_vec();
        let word = words[rng.usize(..words.len())];
        match rng.u8(..9) {
            0 => bytes.splice(at..at, [rng.u8(..)]).for_each(drop),
            1 => bytes.splice(at..(at + 1).min(bytes.len()), [rng.u8(..)]).for_each(drop),
            2 => bytes.splice(at..end, []).for_each(drop),
            3 => bytes.splice(at..at, word.iter().copied()).for_each(drop),
            4 => bytes.splice(at..end, word.iter().copied()).for_each(drop),
            5 => bytes.splice(at..at, word.repeat(rng.usize(..200))).for_each(drop),
            6 => bytes.splice(at..at, piece.repeat(rng.usize(..40))).for_each(drop),
            7 => {
                let to = rng.usize(..=bytes.len());
                bytes.splice(to..to, piece).for_each(drop);
            }
            _ => bytes.truncate(end),
        }
    }
    bytes.truncate(longest);
    bytes
}
