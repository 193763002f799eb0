//! From a payload to a batch.

use xxhash_rust::xxh3::xxh3_64;

use super::fields::{Fields, name_at};
use super::msgpack::{Cursor, Fault, Scalar};
use super::{Batch, Event, EventFault, Removed, Stored};

/// Faults of one batch that are kept; the events after them are read all the same.
const MAX_FAULTS: usize = 16;

/// The batch in `payload`, the last frame of a message.
///
/// # Errors
/// [`EventFault`] where no event can be found in it. A fault of one event is in [`Batch::faults`]; after bytes
/// that are broken the events before them are all that is left.
pub fn decode(payload: &[u8]) -> Result<Batch<'_>, EventFault> {
    let mut cursor = Cursor::new(payload);
    let mut batch = Batch::default();
    let (map, length) = cursor.container().map_err(fault)?;
    let mut found = false;
    for place in 0..length {
        let name = if map {
            text(&mut cursor)?
        } else {
            [&b"ts"[..], b"events", b"data_parallel_rank"][place.min(2)]
        };
        let read = match name {
            b"events" => {
                found = true;
                events(&mut cursor, &mut batch)
            }
            b"ts" => made(&mut cursor, &mut batch),
            b"data_parallel_rank" | b"attn_dp_rank" if map || place == 2 => rank(&mut cursor, &mut batch),
            _ => cursor.skip(),
        };
        match read {
            Err(Fault::Broken) if !batch.events.is_empty() => {
                note(&mut batch, EventFault::Broken);
                return Ok(batch);
            }
            Err(broken) => return Err(fault(broken)),
            Ok(()) => {}
        }
    }
    if found { Ok(batch) } else { Err(EventFault::Shape) }
}

fn fault(fault: Fault) -> EventFault {
    match fault {
        Fault::Broken => EventFault::Broken,
        Fault::WrongType => EventFault::Shape,
    }
}

fn note(batch: &mut Batch<'_>, fault: EventFault) {
    if batch.faults.len() < MAX_FAULTS {
        batch.faults.push(fault);
    }
}

fn text<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], EventFault> {
    match cursor.scalar().map_err(fault)? {
        Scalar::Text(text) => Ok(text),
        _ => Err(EventFault::Shape),
    }
}

fn made(cursor: &mut Cursor<'_>, batch: &mut Batch<'_>) -> Result<(), Fault> {
    match cursor.scalar()? {
        Scalar::Float(made) => batch.made = made,
        Scalar::Integer(made) => batch.made = made as f64,
        _ => {}
    }
    Ok(())
}

fn rank(cursor: &mut Cursor<'_>, batch: &mut Batch<'_>) -> Result<(), Fault> {
    if let Scalar::Integer(rank) = cursor.scalar()? {
        batch.rank = u32::try_from(rank).ok();
    }
    Ok(())
}

fn events<'a>(cursor: &mut Cursor<'a>, batch: &mut Batch<'a>) -> Result<(), Fault> {
    let length = cursor.array()?;
    for _ in 0..length {
        match event(cursor)? {
            Ok(event) => batch.events.push(event),
            Err(fault) => note(batch, fault),
        }
    }
    Ok(())
}

/// One event, passed over as a whole whatever is wrong inside it.
fn event<'a>(cursor: &mut Cursor<'a>) -> Result<Result<Event<'a>, EventFault>, Fault> {
    let (map, length) = match cursor.container() {
        Ok(container) => container,
        Err(Fault::WrongType) => return Ok(Err(EventFault::Shape)),
        Err(Fault::Broken) => return Err(Fault::Broken),
    };
    let mut fields = Fields::default();
    for place in 0..length {
        if !map {
            fields.read(name_at(fields.tag, place), cursor)?;
            continue;
        }
        match cursor.scalar() {
            Ok(Scalar::Text(name)) => fields.read(name, cursor)?,
            Ok(_) | Err(Fault::WrongType) => cursor.skip()?,
            Err(Fault::Broken) => return Err(Fault::Broken),
        }
    }
    Ok(typed(fields))
}

fn typed(fields: Fields<'_>) -> Result<Event<'_>, EventFault> {
    match (fields.tag, fields.fault) {
        (b"BlockStored" | b"BlockRemoved", Some(fault)) => Err(fault),
        (b"BlockStored", None) => stored(fields).map(Event::Stored),
        (b"BlockRemoved", None) => removed(fields).map(Event::Removed),
        (b"AllBlocksCleared", _) => Ok(Event::Cleared),
        (b"", _) => Err(EventFault::Missing("type")),
        _ => Err(EventFault::UnknownType),
    }
}

fn stored(fields: Fields<'_>) -> Result<Stored<'_>, EventFault> {
    let block_size = fields.block_size.ok_or(EventFault::Missing("block_size"))?;
    let (salt, keys) = split_keys(&fields);
    let tokens = fields.tokens.ok_or(EventFault::Missing("token_ids"))?;
    // vLLM's offloading names blocks alone: neither their size nor their tokens.
    if block_size == 0 && !tokens.is_empty() {
        return Err(EventFault::Value("block_size"));
    }
    Ok(Stored {
        hashes: fields.hashes.ok_or(EventFault::Missing("block_hashes"))?,
        parent: fields.parent,
        tokens,
        block_size,
        lora: fields.lora,
        lora_id: fields.lora_id,
        salt: fields.salt.or(salt),
        keys,
        tier: fields.tier,
        remote: fields.remote,
        group: fields.group,
        full_attention: fields.full_attention,
    })
}

/// The salt, which stands among the keys of a prompt's first block, and a hash of each block's other keys.
///
/// vLLM lists the adapter's name among the keys of every block, too: it is no key, but part of the root.
fn split_keys<'a>(fields: &Fields<'a>) -> (Option<&'a str>, Vec<(u32, u64)>) {
    let mut salt = None;
    let mut keys: Vec<(u32, u64)> = Vec::new();
    let mut texts = fields.keys.texts.iter().filter(|(_, text)| fields.lora != Some(text)).peekable();
    if let Some((_, text)) = texts.next_if(|(block, _)| *block == 0 && fields.parent.is_none()) {
        salt = Some(*text);
    }
    let mut found: Vec<_> = fields.keys.others.clone();
    found.extend(texts.map(|(block, text)| (*block, xxh3_64(text.as_bytes()))));
    found.sort_by_key(|(block, _)| *block);
    for (block, hash) in found {
        match keys.last_mut() {
            Some((last, known)) if *last == block => *known = known.rotate_left(7) ^ hash,
            _ => keys.push((block, hash)),
        }
    }
    (salt, keys)
}

fn removed(fields: Fields<'_>) -> Result<Removed, EventFault> {
    Ok(Removed {
        hashes: fields.hashes.ok_or(EventFault::Missing("block_hashes"))?,
        tier: fields.tier,
        remote: fields.remote,
        group: fields.group,
    })
}
