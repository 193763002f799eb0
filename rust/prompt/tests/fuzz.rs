//! The fuzz targets' own entry points with a bounded number of random changes: any bytes give tokens, text or a
//! typed error. `rust/fuzz` runs the same without an end, led by coverage.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "for whoever reads a failure")]
#![allow(unreachable_pub, reason = "the included files are a library of their own, too")]

#[path = "../../fuzz/src/entry.rs"]
mod entry;
#[path = "../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../fuzz/src/seeds.rs"]
#[expect(dead_code, reason = "templates are for the tests inside the crate")]
mod seeds;

use fastrand::Rng;

/// Threads of the router have no more than this.
const STACK: usize = 2 << 20;
const LONGEST: usize = 1 << 16;

/// Runs `check` on changed bodies, each changed further a few times, and says with which seed.
fn on_changed_bodies(rounds: usize, check: fn(&mut Rng, &[u8])) {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let run = move || {
        let mut rng = Rng::with_seed(seed);
        for round in 0..rounds {
            let mut body = seeds::BODIES[round % seeds::BODIES.len()].as_bytes().to_vec();
            check(&mut rng, &body);
            for _ in 0..8 {
                body = mutate::mutate(&mut rng, &body, LONGEST);
                check(&mut rng, &body);
            }
        }
    };
    std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap().join().unwrap();
}

#[test]
fn changed_bodies_are_read_or_refused() {
    on_changed_bodies(2_000, |_, bytes| entry::body(bytes));
}

#[test]
fn changed_bodies_are_rendered_or_refused() {
    on_changed_bodies(300, |rng, bytes| entry::render(rng.u8(..), bytes));
}

#[test]
fn what_was_seen_is_what_would_be_made() {
    entry::load_all();
    on_changed_bodies(150, |rng, bytes| entry::cached(rng.u8(..), bytes));
}
