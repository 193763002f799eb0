//! Counters that one thread writes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A number that one thread changes: no read-modify-write of the processor is needed.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn less_one(&self) {
        self.add(u64::MAX);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Upper bounds of the buckets of times, in seconds: from an idle worker's first token to a long storm.
pub const SECONDS: [f64; 20] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0,
    240.0, 480.0, 960.0,
];
/// Upper bounds of the buckets of the time of a decision, in seconds.
pub const DECISION_SECONDS: [f64; 12] =
    [5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.005, 0.02, 0.1];

/// Times by bucket; one thread writes.
#[derive(Debug)]
pub(crate) struct Times<const N: usize> {
    bounds: &'static [f64; N],
    counts: [Counter; N],
    more: Counter,
    nanos: Counter,
}

impl<const N: usize> Times<N> {
    pub(crate) fn new(bounds: &'static [f64; N]) -> Times<N> {
        Times {
            bounds,
            counts: std::array::from_fn(|_| Counter::default()),
            more: Counter::default(),
            nanos: Counter::default(),
        }
    }

    pub(crate) fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        self.counts.get(bucket).unwrap_or(&self.more).one();
        self.nanos.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn add_to(&self, histogram: &mut Histogram) {
        histogram.bounds = self.bounds;
        histogram.counts.resize(N + 1, 0);
        for (sum, count) in histogram.counts.iter_mut().zip(self.counts.iter().chain([&self.more])) {
            *sum += count.get();
        }
        histogram.sum_seconds += self.nanos.get() as f64 / 1e9;
    }
}

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Upper bounds of the buckets, in seconds, inclusive.
    pub bounds: &'static [f64],
    /// Observations in each bucket alone, and last those above every bound.
    pub counts: Vec<u64>,
    /// The sum of the observations, in seconds.
    pub sum_seconds: f64,
}

impl Histogram {
    /// How many observations there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let times = Times::new(&SECONDS);
        for millis in [1, 2, 1_000_000] {
            times.observe(Duration::from_millis(millis));
        }
        let mut sum = Histogram::default();
        times.add_to(&mut sum);
        times.add_to(&mut sum);
        assert_eq!((sum.counts[0], sum.counts[1], sum.counts[20], sum.count()), (2, 2, 2, 6));
        assert!((sum.sum_seconds - 2000.006).abs() < 1e-6);
    }

    #[test]
    fn a_gauge_goes_down() {
        let gauge = Counter::default();
        gauge.add(2);
        gauge.less_one();
        assert_eq!(gauge.get(), 1);
    }
}
