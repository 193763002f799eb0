//! Batches of a running vLLM, and the same events in every other layout that engines write.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;
use serde_json::Value;
use warmroute_core::event::{Batch, EngineHash, Event, EventFault, Tier, decode};

struct Captured {
    payload: Vec<u8>,
    decoded: Value,
    meaning: String,
}

fn captured() -> Vec<Captured> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/vllm_kv_events.jsonl");
    let lines = std::fs::read_to_string(path).unwrap();
    let parse = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let payload = BASE64_STANDARD.decode(line["payload_b64"].as_str().unwrap()).unwrap();
        let meaning = line["meaning"].as_str().unwrap().to_owned();
        Captured { payload, decoded: line["decoded"].take(), meaning }
    };
    lines.lines().map(parse).collect()
}

/// A hash of the recording: an integer, or bytes as hexadecimal digits.
fn hash(value: &Value) -> EngineHash {
    match value["bytes_hex"].as_str() {
        Some(digits) => EngineHash(u64::from_str_radix(&digits[digits.len() - 16..], 16).unwrap()),
        None => EngineHash(value.as_u64().unwrap()),
    }
}

fn hashes(event: &Value) -> Vec<EngineHash> {
    event["block_hashes"].as_array().unwrap().iter().map(hash).collect()
}

/// The batch says what the recording says.
fn assert_means(batch: &Batch<'_>, decoded: &Value) {
    // The reader of the recording rounds.
    assert!((batch.made - decoded[0].as_f64().unwrap()).abs() < 1e-6);
    assert_eq!(batch.rank, Some(0));
    assert_eq!(batch.faults, []);
    let expected = decoded[1].as_array().unwrap();
    assert_eq!(batch.events.len(), expected.len());
    for (event, expected) in batch.events.iter().zip(expected) {
        match (event, expected["type"].as_str().unwrap()) {
            (Event::Cleared, "AllBlocksCleared") => {}
            (Event::Removed(removed), "BlockRemoved") => {
                assert_eq!(removed.hashes, hashes(expected));
                assert_eq!((removed.tier, removed.group, removed.remote), (Tier::Device, Some(0), false));
            }
            (Event::Stored(stored), "BlockStored") => {
                let tokens = expected["token_ids"].as_array().unwrap();
                let tokens: Vec<u8> =
                    tokens.iter().flat_map(|id| (id.as_u64().unwrap() as u32).to_le_bytes()).collect();
                let parent = Some(&expected["parent_block_hash"]).filter(|parent| !parent.is_null());
                assert_eq!(stored.hashes, hashes(expected));
                assert_eq!(stored.parent, parent.map(hash));
                assert_eq!(stored.tokens, tokens);
                assert_eq!(u64::from(stored.block_size), expected["block_size"].as_u64().unwrap());
                assert_eq!(stored.salt, expected["extra_keys"][0][0].as_str());
                assert_eq!((stored.lora, stored.keys.len(), stored.tier), (None, 0, Tier::Device));
                assert_eq!((stored.full_attention, stored.group), (Some(true), Some(0)));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_captured_batch_decodes_to_its_recorded_meaning() {
    let captured = captured();
    assert_eq!(captured.len(), 44);
    for Captured { payload, decoded, meaning } in captured {
        if meaning == "end" {
            assert_eq!(decode(&payload), Err(EventFault::Broken));
            continue;
        }
        assert_means(&decode(&payload).unwrap(), &decoded);
    }
}

/// The layouts in which the same batch may come.
#[derive(Clone, Copy, Debug)]
struct Layout {
    batch_map: bool,
    event_map: bool,
    signed: bool,
    unknown_fields: bool,
}

fn write(layout: Layout, decoded: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let (made, events) = (decoded[0].as_f64().unwrap(), decoded[1].as_array().unwrap());
    if layout.batch_map {
        out.push(0x83);
        write_text(&mut out, "ts");
    } else {
        out.push(0x93);
    }
    out.push(0xcb);
    out.extend(made.to_be_bytes());
    if layout.batch_map {
        write_text(&mut out, "events");
    }
    write_length(&mut out, events.len(), 0xdc);
    events.iter().for_each(|event| write_event(layout, event, &mut out));
    if layout.batch_map {
        write_text(&mut out, "data_parallel_rank");
    }
    out.push(0);
    out
}

const STORED: [&str; 11] = [
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
];
const REMOVED: [&str; 3] = ["block_hashes", "medium", "group_idx"];

fn write_event(layout: Layout, event: &Value, out: &mut Vec<u8>) {
    let tag = event["type"].as_str().unwrap();
    let fields: &[&str] = match tag {
        "BlockStored" => &STORED,
        "BlockRemoved" => &REMOVED,
        _ => &[],
    };
    let extra = usize::from(layout.unknown_fields && layout.event_map);
    let length = fields.len() + 1 + extra;
    if layout.event_map {
        write_length(out, length, 0xde);
        write_text(out, "type");
    } else {
        write_length(out, length, 0xdc);
    }
    write_text(out, tag);
    if extra == 1 {
        write_text(out, "of_a_later_version");
        out.extend([0x81, 0xa1, b'x', 0x92, 0xc3, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    for name in fields {
        if layout.event_map {
            write_text(out, name);
        }
        write_value(layout, &event[*name], out);
    }
}

fn write_value(layout: Layout, value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xc0),
        Value::Number(number) => {
            out.push(if layout.signed { 0xd3 } else { 0xcf });
            out.extend(number.as_u64().unwrap().to_be_bytes());
        }
        Value::String(text) => write_text(out, text),
        Value::Array(elements) => {
            write_length(out, elements.len(), 0xdc);
            elements.iter().for_each(|element| write_value(layout, element, out));
        }
        Value::Object(_) => {
            let digits = value["bytes_hex"].as_str().unwrap();
            let bytes =
                (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
            out.extend([0xc4, digits.len() as u8 / 2]);
            out.extend(bytes);
        }
        Value::Bool(_) => unreachable!(),
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    out.extend([0xd9, text.len() as u8]);
    out.extend(text.as_bytes());
}

fn write_length(out: &mut Vec<u8>, length: usize, marker: u8) {
    out.push(marker);
    out.extend((length as u16).to_be_bytes());
}

#[test]
fn the_captured_batches_in_every_other_layout_decode_to_the_same_meaning() {
    for Captured { decoded, .. } in captured().iter().filter(|captured| captured.meaning != "end") {
        for bits in 0..16_u8 {
            let bit = |at: u8| bits & (1 << at) != 0;
            let layout =
                Layout { batch_map: bit(0), event_map: bit(1), signed: bit(2), unknown_fields: bit(3) };
            assert_means(&decode(&write(layout, decoded)).unwrap(), decoded);
        }
    }
}

/// `["BlockStored", hashes, parent, tokens, block_size, lora_id]`: all that vLLM 0.9 writes.
#[test]
fn the_oldest_layout_leaves_the_rest_open() {
    let payload = [
        &[0x92, 0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0x92][..],
        &[0x96, 0xab],
        b"BlockStored",
        &[0x91, 0xff, 0xc0, 0x92, 1, 2, 2, 7],
        &[0x92, 0xac],
        b"BlockRemoved",
        &[0x91, 5],
    ]
    .concat();
    let batch = decode(&payload).unwrap();
    assert_eq!((batch.made, batch.rank, batch.faults.len()), (1.5, None, 0));
    let [Event::Stored(stored), Event::Removed(removed)] = &batch.events[..] else { panic!("{batch:?}") };
    assert_eq!((&stored.hashes[..], stored.parent), (&[EngineHash(u64::MAX)][..], None));
    assert_eq!((&stored.tokens[..], stored.block_size), (&[1, 0, 0, 0, 2, 0, 0, 0][..], 2));
    assert_eq!((stored.lora_id, stored.group, stored.full_attention), (Some(7), None, None));
    assert_eq!((&removed.hashes[..], removed.tier), (&[EngineHash(5)][..], Tier::Device));
}

fn map(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = vec![0x80 | fields.len() as u8];
    for (name, value) in fields {
        write_text(&mut out, name);
        out.extend(*value);
    }
    out
}

fn batch_of(events: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x90 | events.len() as u8];
    events.iter().for_each(|event| out.extend(event));
    out.push(0xc0);
    out
}

const STORED_TAG: &[u8] = b"\xabBlockStored";

/// The events of SGLang: signed hashes, pages of one token, a salt of its own field, other names of media.
#[test]
fn reads_what_sglang_writes() {
    let stored = map(&[
        ("type", STORED_TAG),
        ("block_hashes", &[0x92, 0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 3]),
        ("parent_block_hash", &[0xc0]),
        ("token_ids", &[0x92, 10, 11]),
        ("block_size", &[1]),
        ("lora_id", &[0xc0]),
        ("medium", b"\xaaCPU_PINNED"),
        ("cache_salt", b"\xa1s"),
        ("session_id", b"\xa1x"),
    ]);
    let payload = batch_of(&[stored]);
    let batch = decode(&payload).unwrap();
    let [Event::Stored(stored)] = &batch.events[..] else { panic!("{batch:?}") };
    assert_eq!(stored.hashes, [EngineHash(u64::MAX - 1), EngineHash(3)]);
    assert_eq!((stored.block_size, stored.salt, stored.tier), (1, Some("s"), Tier::Lower));
}

/// vLLM 0.33 names what a draft model looks ahead at: it is no token of the block, whatever it looks like.
#[test]
fn lookahead_tokens_are_no_tokens_of_the_block() {
    let fields: [(&str, &[u8]); 7] = [
        ("type", STORED_TAG),
        ("block_hashes", &[0x92, 1, 2]),
        ("parent_block_hash", &[0xc0]),
        ("token_ids", &[0x94, 10, 11, 12, 13]),
        ("block_size", &[2]),
        ("medium", b"\xa3GPU"),
        ("group_idx", &[0]),
    ];
    let plain = batch_of(&[map(&fields)]);
    for lookahead in [&[0xc0][..], &[0x90], &[0x92, 12, 14], &[0x92, 0x91, 12, 0x91, 14], &[0x92, 12, 0xc0]] {
        // Last, as it is written, and first, so that what follows it is read.
        for place in [fields.len(), 1] {
            let mut more = fields.to_vec();
            more.insert(place, ("lookahead_token_ids", lookahead));
            let payload = batch_of(&[map(&more)]);
            assert_eq!(decode(&payload).unwrap(), decode(&plain).unwrap(), "{lookahead:x?}");
        }
        // By place it comes after the ownership and the session.
        let mut event =
            [&[0xdc, 0, 17][..], STORED_TAG, &[0x92, 1, 2, 0xc0, 0x94, 10, 11, 12, 13, 2]].concat();
        event.extend(b"\xc0\xa3GPU\xc0\xc0\x00\xc0\xc0\xc0\xc0\xc0");
        event.extend(lookahead);
        event.push(0xc0);
        let payload = batch_of(&[event]);
        assert_eq!(decode(&payload).unwrap().events, decode(&plain).unwrap().events, "{lookahead:x?}");
    }
}

/// vLLM's offloading names a block and says neither its tokens nor its size.
#[test]
fn blocks_that_are_only_named_are_read() {
    let event = |tokens: &[u8]| {
        batch_of(&[map(&[
            ("type", STORED_TAG),
            ("block_hashes", &[0x91, 7]),
            ("token_ids", tokens),
            ("block_size", &[0]),
            ("medium", b"\xa7STORAGE"),
            ("locality", b"\xa5LOCAL"),
        ])])
    };
    let payload = event(&[0x90]);
    let batch = decode(&payload).unwrap();
    let [Event::Stored(stored)] = &batch.events[..] else { panic!("{batch:?}") };
    assert_eq!((&stored.hashes[..], stored.tier, stored.remote), (&[EngineHash(7)][..], Tier::Lower, false));
    assert_eq!(decode(&event(&[0x91, 1])).unwrap().faults, [EventFault::Value("block_size")]);
}

/// LoRA name, image and salt stand among a block's keys; only what tells blocks apart is kept as a key.
#[test]
fn keys_of_blocks_are_told_apart() {
    let event = |keys: &[u8]| {
        let fields: [(&str, &[u8]); 7] = [
            ("type", STORED_TAG),
            ("block_hashes", &[0x92, 1, 2]),
            ("token_ids", &[0x92, 10, 11]),
            ("block_size", &[1]),
            ("extra_keys", keys),
            ("lora_name", b"\xa3sql"),
            ("locality", b"\xa6REMOTE"),
        ];
        batch_of(&[map(&fields)])
    };
    let read = |payload: &[u8]| match &decode(payload).unwrap().events[..] {
        [Event::Stored(stored)] => {
            assert!(stored.remote);
            assert_eq!(stored.lora, Some("sql"));
            (stored.salt.map(str::to_owned), stored.keys.clone())
        }
        other => panic!("{other:?}"),
    };
    let plain = read(&event(b"\x92\x91\xa3sql\x91\xa3sql"));
    assert_eq!(plain, (None, vec![]));
    let salted = read(&event(b"\x92\x92\xa3sql\xa4salt\x91\xa3sql"));
    assert_eq!(salted, (Some("salt".to_owned()), vec![]));
    let image = read(&event(b"\x92\xc0\x92\xa3sql\x92\xa3img\x00"));
    let moved = read(&event(b"\x92\xc0\x92\xa3sql\x92\xa3img\x01"));
    assert_eq!((image.1[0].0, image.1.len(), moved.1.len()), (1, 1, 1));
    assert_ne!(image, moved);
}

#[test]
fn one_bad_event_does_not_lose_the_batch() {
    let good = || map(&[("type", b"\xacBlockRemoved"), ("block_hashes", &[0x91, 9])]);
    let payload = batch_of(&[
        good(),
        map(&[("type", b"\xacBlockRemoved"), ("block_hashes", &[0x92, 0xa1, b'x', 7])]),
        map(&[("type", STORED_TAG), ("block_hashes", &[0x90]), ("token_ids", &[0x90])]),
        map(&[
            ("type", STORED_TAG),
            ("block_hashes", &[0x90]),
            ("token_ids", &[0x91, 0xff]),
            ("block_size", &[1]),
        ]),
        map(&[("type", b"\xa9Something")]),
        map(&[("kind", &[0])]),
        vec![7],
        good(),
    ]);
    let batch = decode(&payload).unwrap();
    assert_eq!(batch.events.len(), 2);
    let expected = [
        EventFault::Value("block_hashes"),
        EventFault::Missing("block_size"),
        EventFault::Value("token_ids"),
        EventFault::UnknownType,
        EventFault::Missing("type"),
        EventFault::Shape,
    ];
    assert_eq!(batch.faults, expected);
}

#[test]
fn what_comes_before_broken_bytes_is_kept() {
    let whole =
        batch_of(&[map(&[("type", b"\xb0AllBlocksCleared")]), map(&[("type", b"\xb0AllBlocksCleared")])]);
    let batch = decode(&whole[..whole.len() - 6]).unwrap();
    assert_eq!((batch.events, batch.faults), (vec![Event::Cleared], vec![EventFault::Broken]));
    for payload in [&[][..], &[0xc0], &[0x90], &[0x91, 0], &[0x81, 0xa2, b't', b's', 0]] {
        assert!(decode(payload).is_err(), "{payload:x?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_events_or_an_error(payload in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(batch) = decode(&payload) {
            prop_assert!(batch.faults.len() <= 16);
            prop_assert!(batch.events.len() <= payload.len());
        }
    }
}

/// Damage in every place of a real batch: no panic, and what is read is no more than what is there.
#[test]
fn a_damaged_batch_is_events_or_an_error() {
    let payload = &captured()[29].payload;
    for at in 0..payload.len() {
        for byte in [0x00, 0x7f, 0x80, 0x9f, 0xbf, 0xc0, 0xc1, 0xc6, 0xcf, 0xdd, 0xdf, 0xff] {
            let mut damaged = payload.clone();
            damaged[at] = byte;
            if let Ok(batch) = decode(&damaged) {
                assert!(batch.events.len() + batch.faults.len() <= payload.len());
            }
        }
        let cut = decode(&payload[..at]).map(|batch| batch.faults);
        assert!(
            matches!(cut.as_deref(), Ok([EventFault::Broken]) | Err(EventFault::Broken)),
            "{at}: {cut:?}"
        );
    }
}
