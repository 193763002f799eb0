//! Workers with several KV cache groups: one is followed, and says what a block is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Instant;

use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::mirror::Mirror;
use warmroute_core::router::SharedRouter;
use warmroute_core::time::Time;

/// `BlockStored` of one block of `size` tokens, as vLLM sends it by place.
fn stored(name: u8, size: u8, group: u8) -> Vec<u8> {
    let mut event = [&[0x9a, 0xab][..], b"BlockStored", &[0x91, name, 0xc0, 0xdc, 0, size]].concat();
    event.extend(0..size);
    event.extend([size, 0xc0, 0xc0, 0xc0, 0xc0, group]);
    event
}

fn batch(events: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = vec![0x92, 0xcb];
    payload.extend(1.0_f64.to_be_bytes());
    payload.push(0x90 | events.len() as u8);
    events.iter().for_each(|event| payload.extend(event));
    payload
}

fn mirror() -> Mirror {
    let config = RouterConfig { block_size: 16, ..RouterConfig::default() };
    #[expect(clippy::disallowed_methods, reason = "an origin like any other: no time is told")]
    let router = SharedRouter::new(config, Instant::now()).unwrap();
    let spec = WorkerSpec { name: "w".to_owned(), ..WorkerSpec::default() };
    let worker = router.lock().add_worker(spec).unwrap();
    Mirror::new(router, worker, 1)
}

#[test]
fn the_size_of_another_groups_blocks_is_not_odd() {
    let mut mirror = mirror();
    mirror.take(
        0,
        &batch(&[stored(1, 16, 0), stored(2, 24, 1), stored(3, 16, 1), stored(4, 16, 0)]),
        Time::ZERO,
    );
    let stats = mirror.stats();
    assert_eq!((stats.stored_blocks, stats.ignored_blocks), (2, 2));
    assert_eq!((stats.odd_blocks, stats.odd_block_size), (0, 0));
}

#[test]
fn the_first_group_that_fits_is_followed() {
    let mut mirror = mirror();
    mirror.take(0, &batch(&[stored(1, 24, 1), stored(2, 16, 0), stored(3, 24, 1)]), Time::ZERO);
    let stats = mirror.stats();
    assert_eq!((stats.stored_blocks, stats.odd_blocks, stats.odd_block_size), (1, 1, 24));
}
