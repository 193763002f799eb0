//! Encoded KV event batches on their way to a publisher, and kept for replays.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

/// Bytes of batches kept at most: a prefill chunk of 2,048 tokens is about 10 KB, so 10,000 steps of
/// nothing but cold prefill would take 100 MB.
const MAX_BYTES: usize = 64 << 20;

/// A numbered batch.
pub(super) type Batch = (u64, Bytes);

/// The last batches. One taker gets each of them once; a replay gets what is still there.
///
/// A taker that falls behind by more than the log holds finds a gap in the numbers, as a subscriber of
/// vLLM's publisher would.
#[derive(Debug)]
pub(super) struct KvLog {
    max_batches: usize,
    inner: Mutex<Inner>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    batches: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the oldest batch.
    first: u64,
    /// The number of the first batch that is not taken.
    untaken: u64,
}

impl KvLog {
    /// A log of at most `max_batches` batches.
    pub(super) fn new(max_batches: usize) -> KvLog {
        KvLog { max_batches, inner: Mutex::default(), grown: Condvar::new() }
    }

    /// Numbers a batch and adds it.
    pub(super) fn push(&self, payload: Bytes) {
        let mut inner = self.inner.lock();
        inner.bytes += payload.len();
        inner.batches.push_back(payload);
        while inner.batches.len() > self.max_batches || inner.bytes > MAX_BYTES {
            let Some(oldest) = inner.batches.pop_front() else { break };
            inner.bytes -= oldest.len();
            inner.first += 1;
        }
        self.grown.notify_all();
    }

    /// Up to `max` batches that were not taken before; waits up to `timeout` for the first of them.
    pub(super) fn take(&self, max: usize, timeout: Duration) -> Vec<Batch> {
        let deadline = Instant::now() + timeout;
        let mut inner = self.inner.lock();
        loop {
            inner.untaken = inner.untaken.max(inner.first);
            let taken: Vec<_> = inner.from(inner.untaken).take(max).collect();
            if let Some((last, _)) = taken.last() {
                inner.untaken = last + 1;
                return taken;
            }
            if self.grown.wait_until(&mut inner, deadline).timed_out() {
                return Vec::new();
            }
        }
    }

    /// The batches that are still there, from number `from` on.
    pub(super) fn replay(&self, from: u64) -> Vec<Batch> {
        self.inner.lock().from(from).collect()
    }
}

impl Inner {
    fn from(&self, number: u64) -> impl Iterator<Item = Batch> + '_ {
        let skip = number.saturating_sub(self.first);
        let skip = usize::try_from(skip).map_or(self.batches.len(), |skip| skip.min(self.batches.len()));
        let first = self.first + skip as u64;
        (first..).zip(self.batches.range(skip..).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(batches: &[Batch]) -> Vec<u64> {
        batches.iter().map(|batch| batch.0).collect()
    }

    fn pushed(log: &KvLog, batches: usize) {
        (0..batches).for_each(|_| log.push(Bytes::from_static(b"x")));
    }

    #[test]
    fn each_batch_is_taken_once_and_replayed_at_will() {
        let log = KvLog::new(4);
        assert!(log.take(10, Duration::ZERO).is_empty());
        pushed(&log, 3);
        assert_eq!(numbers(&log.take(2, Duration::ZERO)), [0, 1]);
        assert_eq!(numbers(&log.take(2, Duration::ZERO)), [2]);
        assert!(log.take(2, Duration::ZERO).is_empty());
        assert_eq!(numbers(&log.replay(0)), [0, 1, 2]);
        assert_eq!(numbers(&log.replay(2)), [2]);
        assert!(log.replay(3).is_empty() && log.replay(u64::MAX).is_empty());
    }

    #[test]
    fn old_batches_are_dropped_and_leave_a_gap() {
        let log = KvLog::new(4);
        pushed(&log, 10);
        assert_eq!(numbers(&log.replay(0)), [6, 7, 8, 9]);
        assert_eq!(numbers(&log.take(10, Duration::ZERO)), [6, 7, 8, 9]);
        log.push(Bytes::from(vec![0; MAX_BYTES]));
        assert_eq!(numbers(&log.replay(0)), [10]);
        log.push(Bytes::from_static(b"x"));
        assert_eq!(numbers(&log.replay(0)), [11]);
    }

    #[test]
    fn a_taker_is_woken_by_a_batch() {
        let log = KvLog::new(4);
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| log.take(1, Duration::from_secs(60)));
            log.push(Bytes::from_static(b"x"));
            assert_eq!(numbers(&taker.join().unwrap()), [0]);
        });
    }
}
