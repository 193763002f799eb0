//! The ids of a text, piece by piece, and the hashes of their blocks.

use std::sync::Arc;

use warmroute_core::block::{BlockHash, BlockHasher, Namespace};

use super::segments::Segment;
use super::skeleton::{Piece, Skeleton};
use super::{Cache, FIRST, GROUPS, INNER};
use crate::python::UNLIKE_PYTHON;
use crate::work::Work;

/// The ids of a prompt, segment by segment.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    cache: Arc<Cache>,
    segments: Vec<Arc<Segment>>,
}

impl Seen {
    /// The ids, packed.
    pub(crate) fn joined(&self) -> Vec<u8> {
        let mut joined = Vec::with_capacity(self.len() * 4);
        self.segments.iter().for_each(|segment| joined.extend_from_slice(&segment.ids));
        joined
    }

    /// The ids.
    pub(crate) fn ids(&self) -> Vec<u32> {
        let packed = self.segments.iter().flat_map(|segment| segment.ids.chunks_exact(4));
        packed.map(|id| id.try_into().map_or(0, u32::from_le_bytes)).collect()
    }

    /// How many ids there are.
    pub(crate) fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.ids.len() / 4).sum()
    }

    pub(crate) fn hash_into(&self, hasher: &BlockHasher, space: &Namespace<'_>, out: &mut Vec<BlockHash>) {
        self.cache.chains.hash_into(hasher, space, &self.segments, out);
    }
}

/// So many pieces from the start of a text, and then from there, are also kept as one: what is far behind in a
/// long conversation is found by one look-up and not by one a message.
///
/// Not where they are long: making one of them costs more than their look-ups.
const GROUPS_OF: [(usize, usize); 2] = [(16, 128 << 10), (4, 16 << 10)];

impl Cache {
    /// The ids of `text`, piece by piece.
    pub(crate) fn text(self: &Arc<Cache>, text: &str, special: bool, work: &Work<'_>) -> Option<Seen> {
        self.encode(&Skeleton::of(text, self.tokens.places(text)), special, work)
    }

    pub(super) fn encode(
        self: &Arc<Cache>,
        skeleton: &Skeleton<'_>,
        special: bool,
        work: &Work<'_>,
    ) -> Option<Seen> {
        let pieces = skeleton.pieces();
        let mut segments = Vec::with_capacity(pieces.len() + 2);
        let around = if special { Some(self.around.as_ref()?) } else { None };
        segments.extend(around.map(|[before, _]| Arc::clone(before)));
        let mut rest = &pieces[..];
        while let Some(first) = rest.first() {
            let group = GROUPS_OF.iter().find_map(|(size, bytes)| {
                let length = |pieces: &[Piece<'_>]| pieces.iter().map(|piece| piece.length).sum::<usize>();
                rest.split_at_checked(*size).filter(|(pieces, _)| length(pieces) <= *bytes)
            });
            segments.push(match group {
                Some((pieces, _)) => self.group(skeleton, pieces, work)?,
                None => self.piece(first, work)?,
            });
            rest = group.map_or(&rest[1..], |(_, rest)| rest);
        }
        segments.extend(around.map(|[_, after]| Arc::clone(after)));
        let (raw, text) = work.known();
        self.counters.value_hits.add(raw);
        self.counters.text_hits.add(text);
        Some(Seen { cache: Arc::clone(self), segments })
    }

    /// The ids of a full group of pieces.
    fn group(&self, skeleton: &Skeleton<'_>, pieces: &[Piece<'_>], work: &Work<'_>) -> Option<Arc<Segment>> {
        let tag = if pieces.first()?.begins.is_some() { INNER } else { FIRST };
        let lookup = self.keys.lookup(GROUPS | tag, skeleton.key_of(pieces));
        if let Some(segment) = self.segments.get(&lookup) {
            work.knew_text(pieces.iter().map(|piece| piece.length).sum());
            return Some(segment);
        }
        let parts = pieces.iter().map(|piece| self.piece(piece, work)).collect::<Option<Vec<_>>>()?;
        let segment = Segment::joined(&parts);
        self.counters.inserted.add(1);
        self.segments.insert(lookup.to_key(), Arc::clone(&segment));
        Some(segment)
    }

    /// The ids of a piece.
    fn piece(&self, piece: &Piece<'_>, work: &Work<'_>) -> Option<Arc<Segment>> {
        let lookup = self.keys.lookup(if piece.begins.is_some() { INNER } else { FIRST }, piece.key);
        if let Some(segment) = self.segments.get(&lookup) {
            work.knew_text(piece.length);
            return Some(segment);
        }
        let encoder = work.encoder(piece.length)?;
        self.counters.text_misses.add(piece.length);
        let text = piece.text()?;
        if text.contains(UNLIKE_PYTHON) {
            return None;
        }
        let ids = encoder.encode(&text, false).ok()?;
        let ids = match piece.begins {
            None => &ids[..],
            // The token that the piece begins with belongs to the one before.
            Some(id) => ids.split_first().filter(|(first, _)| **first == id).map(|(_, rest)| rest)?,
        };
        let segment = Segment::new(ids);
        self.counters.inserted.add(1);
        self.segments.insert(lookup.to_key(), Arc::clone(&segment));
        Some(segment)
    }
}
