//! Batches that came while older ones are asked for again.

use std::collections::VecDeque;

/// Batches in the order in which they came, within a bound of bytes.
#[derive(Debug)]
pub(super) struct Pending {
    batches: VecDeque<(u64, Box<[u8]>)>,
    bytes: usize,
    max_bytes: usize,
}

impl Pending {
    pub(super) fn new(max_bytes: usize) -> Pending {
        Pending { batches: VecDeque::new(), bytes: 0, max_bytes }
    }

    /// Keeps a batch; the oldest ones go where there is no room. What goes is a gap later.
    pub(super) fn push(&mut self, number: u64, payload: &[u8]) {
        self.bytes += payload.len();
        self.batches.push_back((number, payload.into()));
        while self.bytes > self.max_bytes {
            self.pop();
        }
    }

    /// The number of the oldest batch.
    pub(super) fn first(&self) -> Option<u64> {
        self.batches.front().map(|(number, _)| *number)
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Box<[u8]>)> {
        let oldest = self.batches.pop_front()?;
        self.bytes -= oldest.1.len();
        Some(oldest)
    }

    /// Puts the newest batch before all others.
    pub(super) fn newest_first(&mut self) {
        if let Some(newest) = self.batches.pop_back() {
            self.batches.push_front(newest);
        }
    }

    pub(super) fn clear(&mut self) {
        self.batches = VecDeque::new();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_where_there_is_no_room() {
        let mut pending = Pending::new(10);
        for number in 0..4 {
            pending.push(number, &[0; 4]);
        }
        assert_eq!(pending.first(), Some(2));
        pending.push(9, &[0; 11]);
        assert_eq!((pending.first(), pending.bytes), (None, 0));
    }
}
