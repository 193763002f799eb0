//! Events of engines into the index: how fast, beside lookups, in how much memory, and for how long.
//!
//! `warmroute-bench-events PART ...` prints one JSON object a line.

mod fleet;
mod ingest;
mod lookups;
mod memory;
mod soak;
mod wire;

use lookups::Events;
use wire::Layout;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let part = arguments.next().expect("the part to measure");
    let mut number = |or: u64| arguments.next().map_or(or, |text| text.parse().expect("a number"));
    match part.as_str() {
        "ingest" => {
            let (blocks, rounds) = (number(1_000_000), number(5) as usize);
            for layout in Layout::ALL {
                for size in [16, 64, 128, 500] {
                    println!("{}", ingest::measured(layout, size, blocks, rounds));
                }
            }
        }
        "lookups" => {
            let (rounds, millis) = (number(5) as usize, number(1000));
            for events in [Events::Churn(16), Events::Churn(128), Events::Churn(500), Events::Clears] {
                println!("{}", lookups::measured(events, rounds, millis as f64 / 1000.0));
            }
        }
        "memory" => {
            let (shape, pairs) = (number(0) as usize, number(10_000_000));
            match memory::measured(shape, pairs) {
                Some(row) => println!("{row}"),
                None => std::process::exit(3),
            }
        }
        "soak" => {
            let (events, step) = (number(100_000_000), number(5_000_000));
            soak::measured(events, step, |row| println!("{row}"));
        }
        other => panic!("unknown part {other}"),
    }
}
