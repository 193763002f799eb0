//! Against batches that vLLM 0.32.0 sent: the same content has the same bytes.

use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::engine::{Lora, Space};

const BATCHES: &str = include_str!("../../tests/data/vllm_kv_batches.jsonl");

fn event(json: &Value) -> KvEvent {
    let numbers = |name: &str| json[name].as_array().unwrap().iter().map(|n| n.as_u64().unwrap());
    match json["type"].as_str().unwrap() {
        "BlockStored" => KvEvent::Stored {
            parent: json["parent_block_hash"].as_u64(),
            hashes: numbers("block_hashes").collect(),
            tokens: numbers("token_ids").map(|token| token as u32).collect(),
            space: Arc::new(Space { salt: json["extra_keys"][0][0].as_str().map(str::to_owned), lora: None }),
        },
        "AllBlocksCleared" => KvEvent::Cleared,
        other => panic!("{other}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn batches_have_the_bytes_that_vllm_sends() {
    for line in BATCHES.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let batch = &line["batch"];
        let events: Vec<_> = batch[1].as_array().unwrap().iter().map(event).collect();
        let payload = encode_batch(batch[0].as_f64().unwrap(), &events, 32);
        assert_eq!(hex(&payload), line["payload_hex"].as_str().unwrap(), "{}", line["note"]);
    }
}

#[test]
fn a_removal_names_one_hash() {
    let payload = encode_batch(0.0, &[KvEvent::Removed { hash: 0xFFFF_FFFF_FFFF_FFFE }], 16);
    let mut want = vec![0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x91, 0x84, 0xa4];
    want.extend(b"type\xacBlockRemoved\xacblock_hashes\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xfe");
    want.extend(b"\xa6medium\xa3GPU\xa9group_idx\0\0");
    assert_eq!(hex(&payload), hex(&want));
}

#[test]
fn an_adapter_goes_with_every_block_and_a_salt_with_the_first() {
    let stored = |parent| KvEvent::Stored {
        parent,
        hashes: vec![1, 2],
        tokens: vec![3, 4],
        space: Arc::new(Space {
            salt: Some("s".to_owned()),
            lora: Some(Lora { id: 7, name: "ad".to_owned() }),
        }),
    };
    let first = hex(&encode_batch(0.0, &[stored(None)], 1));
    assert!(first.contains(&hex(b"\xa7lora_id\x07\xa6medium\xa3GPU\xa9lora_name\xa2ad")));
    assert!(first.contains(&hex(b"\xaaextra_keys\x92\x92\xa2ad\xa1s\x91\xa2ad\xa9group_idx")));
    let later = hex(&encode_batch(0.0, &[stored(Some(1))], 1));
    assert!(later.contains(&hex(b"\xaaextra_keys\x92\x91\xa2ad\x91\xa2ad\xa9group_idx")));
}
