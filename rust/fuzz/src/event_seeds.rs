//! KV events to begin with: what a running vLLM sent, and small batches of every other layout.

use std::io;
use std::path::Path;

/// What the reader of events gives a meaning to.
pub const WORDS: [&[u8]; 30] = [
    b"\xa4type",
    b"\xabBlockStored",
    b"\xacBlockRemoved",
    b"\xb0AllBlocksCleared",
    b"\xacblock_hashes",
    b"\xb1parent_block_hash",
    b"\xa9token_ids",
    b"\xaablock_size",
    b"\xa7lora_id",
    b"\xa6medium",
    b"\xa9lora_name",
    b"\xaacache_salt",
    b"\xaaextra_keys",
    b"\xa9group_idx",
    b"\xb2kv_cache_spec_kind",
    b"\xaefull_attention",
    b"\xaesliding_window",
    b"\xa8locality",
    b"\xa6REMOTE",
    b"\xb3lookahead_token_ids",
    b"\xa3GPU",
    b"\xaaCPU_PINNED",
    b"\xa2ts",
    b"\xa6events",
    b"\xb2data_parallel_rank",
    b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xc4\x08\x00\x00\x00\x00\x00\x00\x00\x01",
    b"\xc0",
    b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
];

/// Small batches: two blocks of two tokens as arrays and as maps, evicted and cleared; the batch as a map, too.
pub const SMALL: [&[u8]; 6] = [
    b"\x92\xcb\x3f\xf0\0\0\0\0\0\0\x92\x9a\xabBlockStored\x92\x05\x06\xc0\x94\x01\x02\x03\x04\x02\xc0\xa3GPU\xc0\xc0\x00\x94\xacBlockRemoved\x91\x06\xa3GPU\x00",
    b"\x93\xcb\x40\x00\0\0\0\0\0\0\x91\x99\xabBlockStored\x91\x07\x05\x92\x09\x08\x02\xc0\xa3CPU\xa1l\x91\x92\xa1s\x92\xa1i\x00\xc0",
    b"\x93\xcb\x40\x08\0\0\0\0\0\0\x92\x85\xa4type\xabBlockStored\xacblock_hashes\x92\x05\xd3\xff\xff\xff\xff\xff\xff\xff\xfe\xb1parent_block_hash\xc0\xa9token_ids\x92\x01\x02\xaablock_size\x01\x82\xa4type\xacBlockRemoved\xacblock_hashes\x91\x05\x00",
    b"\x93\xcb\x40\x10\0\0\0\0\0\0\x91\x81\xa4type\xb0AllBlocksCleared\x00",
    b"\x82\xa2ts\xcb\x40\x14\0\0\0\0\0\0\xa6events\x91\x86\xa4type\xabBlockStored\xacblock_hashes\x91\xc4\x08\0\0\0\0\0\0\0\x09\xa9token_ids\x92\x01\x02\xaablock_size\x02\xaacache_salt\xa1s\xb3lookahead_token_ids\x91\x07",
    b"\x92\xcb\x40\x18\0\0\0\0\0\0\x91\x91\xb0AllBlocksCleared",
];

/// The payloads of `tests/data/vllm_kv_events.jsonl` of the repository at `root`.
pub fn captured(root: &Path) -> io::Result<Vec<Vec<u8>>> {
    let lines = std::fs::read_to_string(root.join("tests/data/vllm_kv_events.jsonl"))?;
    let field = |line: &str| Some(unpacked(line.split_once("\"payload_b64\":\"")?.1.split_once('"')?.0));
    Ok(lines.lines().filter_map(field).collect())
}

/// Base64 to bytes; other characters are passed over.
fn unpacked(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte)) {
        bits = bits << 6 | digit as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}
