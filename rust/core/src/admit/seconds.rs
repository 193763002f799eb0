//! A count of the last seconds that any thread adds to without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::Time;

/// Seconds that count as recent.
pub(super) const WINDOW: u32 = 10;
/// Seconds that are kept. More than the window, so that a thread that is late by a few finds its second still there.
const KEPT: usize = 16;
const NANOS: u64 = 1_000_000_000;

/// How often something happened in each of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    /// The second in the upper half, its count in the lower one.
    cells: [AtomicU64; KEPT],
}

impl Seconds {
    /// It happened once more.
    pub(super) fn add(&self, now: Time) {
        let second = second(now);
        let cell = &self.cells[second as usize % KEPT];
        // Threads need not agree on more than the number.
        let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| Some(counted(held, second)));
    }

    /// How often it happened in the seconds of the window that ends with `now`.
    pub(super) fn recent(&self, now: Time) -> u64 {
        let second = second(now);
        let cells = self.cells.iter().map(|cell| parts(cell.load(Ordering::Relaxed)));
        cells.filter(|(at, _)| at.saturating_add(WINDOW) > second).map(|(_, count)| u64::from(count)).sum()
    }
}

/// The second since the origin; 32 bits last for 136 years.
fn second(now: Time) -> u32 {
    u32::try_from(now.as_nanos() / NANOS).unwrap_or(u32::MAX)
}

fn parts(held: u64) -> (u32, u32) {
    ((held >> 32) as u32, held as u32)
}

/// The cell with one more in `second`. Where it holds a later second, that is the one that counts.
fn counted(held: u64, second: u32) -> u64 {
    let (at, count) = parts(held);
    let count = if at >= second { count.saturating_add(1) } else { 1 };
    u64::from(at.max(second)) << 32 | u64::from(count)
}
