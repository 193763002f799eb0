//! KV events in vLLM 0.32's msgpack layout.

use bytes::Bytes;
use rmp::encode as mp;

use crate::engine::KvEvent;

/// One batch: `[ts, [event, …], data_parallel_rank]`, with `ts` in seconds since 1970.
///
/// Integers and lengths take their shortest form, and keys their order, as in vLLM: a batch of the same
/// content has the same bytes.
pub(super) fn encode_batch(ts: f64, events: &[KvEvent], block_size: u32) -> Bytes {
    let mut out = Vec::new();
    // A Vec takes every byte, so nothing here can fail.
    let _written = write_batch(&mut out, ts, events, block_size);
    out.into()
}

type Written = Result<(), mp::ValueWriteError>;

fn write_batch(out: &mut Vec<u8>, ts: f64, events: &[KvEvent], block_size: u32) -> Written {
    mp::write_array_len(out, 3)?;
    mp::write_f64(out, ts)?;
    mp::write_array_len(out, events.len() as u32)?;
    for event in events {
        write_event(out, event, block_size)?;
    }
    mp::write_uint(out, 0)?;
    Ok(())
}

fn write_event(out: &mut Vec<u8>, event: &KvEvent, block_size: u32) -> Written {
    match event {
        KvEvent::Stored { .. } => write_stored(out, event, block_size),
        KvEvent::Removed { hash } => {
            mp::write_map_len(out, 4)?;
            pair(out, "type", "BlockRemoved")?;
            mp::write_str(out, "block_hashes")?;
            uints(out, std::iter::once(*hash))?;
            pair(out, "medium", "GPU")?;
            mp::write_str(out, "group_idx")?;
            mp::write_uint(out, 0)?;
            Ok(())
        }
        KvEvent::Cleared => {
            mp::write_map_len(out, 1)?;
            pair(out, "type", "AllBlocksCleared")
        }
    }
}

fn write_stored(out: &mut Vec<u8>, event: &KvEvent, block_size: u32) -> Written {
    let KvEvent::Stored { parent, hashes, tokens, space } = event else { return Ok(()) };
    mp::write_map_len(out, 11)?;
    pair(out, "type", "BlockStored")?;
    mp::write_str(out, "block_hashes")?;
    uints(out, hashes.iter().copied())?;
    mp::write_str(out, "parent_block_hash")?;
    uint_or_nil(out, *parent)?;
    mp::write_str(out, "token_ids")?;
    uints(out, tokens.iter().map(|&token| u64::from(token)))?;
    mp::write_str(out, "block_size")?;
    mp::write_uint(out, u64::from(block_size))?;
    mp::write_str(out, "lora_id")?;
    uint_or_nil(out, space.lora.as_ref().map(|lora| u64::from(lora.id)))?;
    pair(out, "medium", "GPU")?;
    mp::write_str(out, "lora_name")?;
    let lora = space.lora.as_ref().map(|lora| lora.name.as_str());
    match lora {
        Some(name) => mp::write_str(out, name)?,
        None => mp::write_nil(out).map_err(mp::ValueWriteError::InvalidMarkerWrite)?,
    }
    mp::write_str(out, "extra_keys")?;
    mp::write_array_len(out, hashes.len() as u32)?;
    for block in 0..hashes.len() {
        // The adapter goes with every block, the salt with the first of a prompt.
        let salt = space.salt.as_deref().filter(|_| block == 0 && parent.is_none());
        extra_keys(out, lora, salt)?;
    }
    mp::write_str(out, "group_idx")?;
    mp::write_uint(out, 0)?;
    pair(out, "kv_cache_spec_kind", "full_attention")
}

fn extra_keys(out: &mut Vec<u8>, lora: Option<&str>, salt: Option<&str>) -> Written {
    let keys = [lora, salt];
    match keys.iter().flatten().count() as u32 {
        0 => mp::write_nil(out).map_err(mp::ValueWriteError::InvalidMarkerWrite)?,
        some => {
            mp::write_array_len(out, some)?;
            for key in keys.into_iter().flatten() {
                mp::write_str(out, key)?;
            }
        }
    }
    Ok(())
}

fn pair(out: &mut Vec<u8>, key: &str, value: &str) -> Written {
    mp::write_str(out, key)?;
    mp::write_str(out, value)
}

fn uints(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u64>) -> Written {
    mp::write_array_len(out, values.len() as u32)?;
    for value in values {
        mp::write_uint(out, value)?;
    }
    Ok(())
}

fn uint_or_nil(out: &mut Vec<u8>, value: Option<u64>) -> Written {
    match value {
        Some(value) => mp::write_uint(out, value).map(drop),
        None => mp::write_nil(out).map_err(mp::ValueWriteError::InvalidMarkerWrite),
    }
}

#[cfg(test)]
#[path = "kv_encode_tests.rs"]
mod tests;
