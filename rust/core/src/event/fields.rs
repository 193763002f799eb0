//! The fields of an event, by whichever layout they come.

use xxhash_rust::xxh3::xxh3_64;

use super::msgpack::{Cursor, Fault, Scalar};
use super::{EngineHash, EventFault, Tier};

/// What `BlockStored` holds, by place, where an event is an array; from vLLM 0.9 on fields were only added.
const STORED: [&[u8]; 14] = [
    b"type",
    b"block_hashes",
    b"parent_block_hash",
    b"token_ids",
    b"block_size",
    b"lora_id",
    b"medium",
    b"lora_name",
    b"extra_keys",
    b"group_idx",
    b"kv_cache_spec_kind",
    b"kv_cache_spec_sliding_window",
    b"locality",
    b"ownership",
];
/// The same for `BlockRemoved`.
const REMOVED: [&[u8]; 6] = [b"type", b"block_hashes", b"medium", b"group_idx", b"locality", b"ownership"];

/// The name of the field at `place` of an event of type `tag` that is an array.
pub(super) fn name_at(tag: &[u8], place: usize) -> &'static [u8] {
    let names: &[&[u8]] = if tag == b"BlockRemoved" { &REMOVED } else { &STORED };
    names.get(place).copied().unwrap_or_default()
}

/// Keys of the blocks of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys<'a> {
    /// Index of the block and each text among its keys: a LoRA name, a salt, a digest.
    pub(super) texts: Vec<(u32, &'a str)>,
    /// Index of the block and the hash of each key that is no text: an image and its place, say.
    pub(super) others: Vec<(u32, u64)>,
}

/// An event's fields as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields<'a> {
    pub(super) tag: &'a [u8],
    pub(super) hashes: Option<Vec<EngineHash>>,
    pub(super) parent: Option<EngineHash>,
    pub(super) tokens: Option<Vec<u8>>,
    pub(super) block_size: Option<u32>,
    pub(super) lora: Option<&'a str>,
    pub(super) lora_id: Option<u64>,
    pub(super) salt: Option<&'a str>,
    pub(super) keys: Keys<'a>,
    pub(super) tier: Tier,
    pub(super) remote: bool,
    pub(super) group: Option<u32>,
    pub(super) full_attention: Option<bool>,
    /// The first field that could not be read. The event is lost, what follows it is not.
    pub(super) fault: Option<EventFault>,
}

impl<'a> Fields<'a> {
    /// Reads the value of the field `name`, or passes over it.
    ///
    /// # Errors
    /// [`Fault::Broken`]; a value of a wrong type is noted in [`Fields::fault`].
    pub(super) fn read(&mut self, name: &[u8], cursor: &mut Cursor<'a>) -> Result<(), Fault> {
        let (field, read) = match name {
            b"type" => ("type", text(cursor).map(|tag| self.tag = tag.unwrap_or_default().as_bytes())),
            b"block_hashes" => ("block_hashes", hashes(cursor).map(|hashes| self.hashes = Some(hashes))),
            b"parent_block_hash" => ("parent_block_hash", hash(cursor).map(|parent| self.parent = parent)),
            b"token_ids" => ("token_ids", tokens(cursor).map(|tokens| self.tokens = Some(tokens))),
            b"block_size" => ("block_size", small(cursor).map(|size| self.block_size = size)),
            b"lora_id" => ("lora_id", integer(cursor).map(|id| self.lora_id = id)),
            b"medium" => ("medium", text(cursor).map(|medium| self.tier = tier(medium))),
            b"lora_name" => ("lora_name", text(cursor).map(|name| self.lora = name)),
            b"cache_salt" => ("cache_salt", text(cursor).map(|salt| self.salt = salt)),
            b"extra_keys" => ("extra_keys", keys(cursor).map(|keys| self.keys = keys)),
            b"group_idx" => ("group_idx", small(cursor).map(|group| self.group = group)),
            b"kv_cache_spec_kind" => {
                ("kv_cache_spec_kind", text(cursor).map(|kind| self.full_attention = kind.map(is_full)))
            }
            b"locality" => ("locality", text(cursor).map(|place| self.remote = place == Some("REMOTE"))),
            _ => return cursor.skip(),
        };
        match read {
            Err(Fault::WrongType) => {
                self.fault = self.fault.or(Some(EventFault::Value(field)));
                Ok(())
            }
            other => other,
        }
    }
}

/// vLLM's `GPU` is also what is meant where no medium is named; SGLang and connectors have more names.
fn tier(medium: Option<&str>) -> Tier {
    match medium {
        None => Tier::Device,
        Some(name) if name.eq_ignore_ascii_case("gpu") => Tier::Device,
        Some(_) => Tier::Lower,
    }
}

/// The kinds of attention for which a hit needs all blocks before it.
fn is_full(kind: &str) -> bool {
    matches!(kind, "full_attention" | "mla_attention" | "sink_full_attention")
}

fn text<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a str>, Fault> {
    match cursor.scalar()? {
        Scalar::Nil => Ok(None),
        Scalar::Text(text) => std::str::from_utf8(text).map(Some).map_err(|_| Fault::WrongType),
        _ => Err(Fault::WrongType),
    }
}

fn integer(cursor: &mut Cursor<'_>) -> Result<Option<u64>, Fault> {
    match cursor.scalar()? {
        Scalar::Nil => Ok(None),
        Scalar::Integer(value) => Ok(Some(value)),
        _ => Err(Fault::WrongType),
    }
}

fn small(cursor: &mut Cursor<'_>) -> Result<Option<u32>, Fault> {
    integer(cursor)?.map(u32::try_from).transpose().map_err(|_| Fault::WrongType)
}

fn hash(cursor: &mut Cursor<'_>) -> Result<Option<EngineHash>, Fault> {
    match cursor.scalar()? {
        Scalar::Nil => Ok(None),
        Scalar::Integer(value) => Ok(Some(EngineHash(value))),
        Scalar::Bytes(bytes) => {
            let tail = bytes.last_chunk::<8>().ok_or(Fault::WrongType)?;
            Ok(Some(EngineHash(u64::from_be_bytes(*tail))))
        }
        _ => Err(Fault::WrongType),
    }
}

/// Reads all `length` elements of an array, also after one of a wrong type, so that what follows can be read.
fn each<'a>(
    cursor: &mut Cursor<'a>,
    length: usize,
    mut read: impl FnMut(&mut Cursor<'a>, usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut wrong = false;
    for index in 0..length {
        match read(cursor, index) {
            Ok(()) => {}
            Err(Fault::WrongType) => wrong = true,
            Err(Fault::Broken) => return Err(Fault::Broken),
        }
    }
    if wrong { Err(Fault::WrongType) } else { Ok(()) }
}

fn hashes(cursor: &mut Cursor<'_>) -> Result<Vec<EngineHash>, Fault> {
    let length = cursor.array()?;
    let mut hashes = Vec::with_capacity(length);
    each(cursor, length, |cursor, _| {
        hashes.push(hash(cursor)?.ok_or(Fault::WrongType)?);
        Ok(())
    })?;
    Ok(hashes)
}

fn tokens(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Fault> {
    let length = cursor.array()?;
    let mut packed = Vec::with_capacity(length * 4);
    each(cursor, length, |cursor, _| {
        let id = small(cursor)?.ok_or(Fault::WrongType)?;
        packed.extend_from_slice(&id.to_le_bytes());
        Ok(())
    })?;
    Ok(packed)
}

/// The keys of each block: `nil`, or an array of texts and of pairs.
fn keys<'a>(cursor: &mut Cursor<'a>) -> Result<Keys<'a>, Fault> {
    let mut keys = Keys::default();
    let Some(length) = cursor.optional_array()? else { return Ok(keys) };
    each(cursor, length, |cursor, block| {
        let block = u32::try_from(block).map_err(|_| Fault::WrongType)?;
        let length = cursor.optional_array()?.unwrap_or_default();
        each(cursor, length, |cursor, _| {
            let before = cursor.clone();
            cursor.skip()?;
            if let Ok(Some(text)) = text(&mut before.clone()) {
                keys.texts.push((block, text));
            } else {
                keys.others.push((block, xxh3_64(before.until(cursor))));
            }
            Ok(())
        })
    })?;
    Ok(keys)
}
