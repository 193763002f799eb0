//! An engine that says more than can be: what its mirror keeps has a bound.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Instant;

use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::mirror::{Mirror, Status};
use warmroute_core::router::SharedRouter;
use warmroute_core::time::Time;

/// The engine's blocks in an event.
const RUN: u32 = 1_024;
/// The least that an operator can give.
const INDEX_BYTES: u64 = 1 << 20;

struct Bench {
    router: SharedRouter,
    mirror: Mirror,
    batches: u64,
}

impl Bench {
    fn new(kv_blocks: Option<u32>) -> Bench {
        let config = RouterConfig { index_bytes: INDEX_BYTES, ..RouterConfig::default() };
        #[expect(clippy::disallowed_methods, reason = "an origin like any other: no time is told")]
        let router = SharedRouter::new(config, Instant::now()).unwrap();
        let spec = WorkerSpec { name: "w".to_owned(), kv_blocks, ..WorkerSpec::default() };
        let worker = router.lock().add_worker(spec).unwrap();
        Bench { mirror: Mirror::new(router.clone(), worker, 1), router, batches: 0 }
    }

    /// A prompt of [`RUN`] blocks that no other one begins with.
    fn store(&mut self, block_size: u32, lower: bool) {
        let first = self.batches as u32 * RUN;
        let array = |bytes: &mut Vec<u8>, len: u32| {
            bytes.push(0xdd);
            bytes.extend(len.to_be_bytes());
        };
        let mut payload = vec![0x92, 0xcb];
        payload.extend((self.batches as f64).to_be_bytes());
        payload.extend([0x91, 0x97, 0xab]);
        payload.extend(b"BlockStored");
        array(&mut payload, RUN);
        for block in 0..RUN {
            payload.push(0xce);
            payload.extend((first + block + 1).to_be_bytes());
        }
        payload.push(0xc0);
        array(&mut payload, RUN * block_size);
        for token in 0..RUN * block_size {
            payload.push(0xce);
            payload.extend((first + token / block_size).to_be_bytes());
        }
        payload.extend([block_size as u8, 0xc0]);
        payload.extend(if lower { b"\xa3CPU" } else { b"\xa3GPU" });
        assert_eq!(self.mirror.take(self.batches, &payload, Time::ZERO), Status::Live);
        self.batches += 1;
    }

    fn confirmed(&self) -> u64 {
        self.router.lock().stats().workers[0].confirmed_blocks
    }
}

/// Nobody knows how many blocks it has: the memory for their names is bounded as the index is, and counted.
#[test]
fn names_of_an_engine_of_unknown_size_take_no_more_than_the_index_may() {
    for block_size in [1, 16] {
        let mut bench = Bench::new(None);
        let mut most = 0;
        for _ in 0..200 {
            bench.store(block_size, false);
            let stats = bench.mirror.stats();
            // Memory that grows by doubling may be half empty.
            assert!(stats.bytes as u64 <= 2 * INDEX_BYTES, "{} bytes, {block_size} tokens", stats.bytes);
            assert!(stats.forgotten_blocks > 0 || stats.losses == 0);
            most = most.max(stats.blocks);
        }
        let stats = bench.mirror.stats();
        assert_eq!(stats.forgotten_blocks + stats.blocks as u64, 200 * u64::from(RUN), "none is lost unseen");
        assert_eq!(stats.losses, stats.forgotten_blocks / (most as u64 + u64::from(RUN)));
        let room = INDEX_BYTES as usize / if block_size == 1 { 120 } else { 24 };
        assert!(most > room, "{most} names of {block_size} tokens were kept, {room} have room");
        // It goes on from there.
        assert!(bench.confirmed() > 0);
    }
}

/// What lies in lower tiers has half of the room and goes alone: what the device holds stays.
#[test]
fn lower_tiers_give_way_before_the_device_does() {
    let mut bench = Bench::new(None);
    bench.store(1, false);
    let confirmed = bench.confirmed();
    assert_eq!(confirmed, u64::from(RUN / 16));
    for _ in 0..50 {
        bench.store(1, true);
        assert!(bench.mirror.stats().lower_blocks <= INDEX_BYTES as usize / 2 / 80);
    }
    let stats = bench.mirror.stats();
    assert_eq!((bench.confirmed(), stats.losses, stats.blocks), (confirmed, 0, RUN as usize));
    assert!(stats.forgotten_blocks > 0);
    assert_eq!(stats.forgotten_blocks + stats.lower_blocks as u64, 50 * u64::from(RUN));
}

/// An engine that has told its size holds at most twice as much by its events.
#[test]
fn an_engine_that_holds_far_more_than_it_has_is_doubted() {
    let mut bench = Bench::new(Some(1_000));
    (0..2).for_each(|_| bench.store(16, false));
    assert_eq!((bench.mirror.stats().forgotten_blocks, bench.confirmed()), (0, 2 * u64::from(RUN)));
    bench.store(16, false);
    let stats = bench.mirror.stats();
    assert_eq!((stats.forgotten_blocks, stats.losses, bench.confirmed()), (3 * u64::from(RUN), 1, 0));
}
