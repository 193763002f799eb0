//! The fuzz targets' own entry points for KV events with a bounded number of random changes. `rust/fuzz` runs the same
//! for longer, led by coverage.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "for whoever reads a failure")]
#![allow(clippy::disallowed_methods, reason = "an origin like any other: no time is told")]
#![allow(unreachable_pub, reason = "the included files are a library of their own, too")]

#[path = "../../fuzz/src/event_seeds.rs"]
mod event_seeds;
#[path = "../../fuzz/src/events.rs"]
mod events;
#[path = "../../fuzz/src/mutate.rs"]
#[expect(dead_code, reason = "bodies have words of their own")]
mod mutate;
#[path = "../../fuzz/src/seeds.rs"]
#[expect(dead_code, reason = "bodies and templates are for the tests of prompts")]
mod seeds;

use std::path::Path;

use fastrand::Rng;

const LONGEST: usize = 4096;

fn seeds() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let captured = event_seeds::captured(&root).unwrap();
    assert_eq!(captured.len(), 44);
    event_seeds::SMALL.into_iter().map(<[u8]>::to_vec).chain(captured).collect()
}

fn rng() -> Rng {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    Rng::with_seed(seed)
}

fn changed(rng: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    mutate::mutate_with(rng, bytes, &event_seeds::WORDS, LONGEST)
}

#[test]
fn changed_batches_are_events_or_an_error() {
    let mut rng = rng();
    for round in 0..400 {
        for seed in seeds() {
            let mut bytes = seed;
            for _ in 0..1 + round % 4 {
                bytes = changed(&mut rng, &bytes);
                events::decoded(&bytes);
            }
        }
    }
}

#[test]
fn changed_batches_leave_the_index_in_order() {
    let (mut rng, seeds) = (rng(), seeds());
    for _ in 0..1500 {
        let mut input = vec![rng.u8(..)];
        for _ in 0..rng.usize(1..12) {
            let mut batch = seeds[rng.usize(..seeds.len())].clone();
            if rng.bool() {
                batch = changed(&mut rng, &batch);
            }
            input.extend(events::step(rng.u8(..), &batch));
        }
        events::mirrored(&input);
        events::mirrored(&changed(&mut rng, &input));
    }
}
