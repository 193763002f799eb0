//! The numbers of a worker's batches: which is next, which was seen, and which are missing.

/// What the number of a batch means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It follows the last one.
    Next,
    /// It was applied before.
    Duplicate,
    /// It comes from another process than the ones before, whose cache was empty when it began.
    Restart,
    /// Batches from this number on are missing before it.
    Gap(u64),
}

/// How far a worker's batches were applied.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Order {
    next: Option<u64>,
    /// When the last batch was made, by the worker's clock.
    made: f64,
}

impl Order {
    /// The first number that was not applied; zero where none was.
    pub(super) fn next(&self) -> u64 {
        self.next.unwrap_or(0)
    }

    /// What batch `number`, made at `made` by the worker's clock, is.
    ///
    /// A publisher counts from zero, and a socket reconnects to the next process in silence: a lower number
    /// made later is a new process, one made no later was seen.
    pub(super) fn judge(&self, number: u64, made: f64) -> Verdict {
        match self.next {
            None if number == 0 => Verdict::Next,
            None => Verdict::Gap(0),
            Some(next) if number == next => Verdict::Next,
            Some(next) if number > next => Verdict::Gap(next),
            Some(_) if made > self.made => Verdict::Restart,
            Some(_) => Verdict::Duplicate,
        }
    }

    /// Whether the last batch was made after `made`.
    pub(super) fn is_after(&self, made: f64) -> bool {
        self.next.is_some() && made < self.made
    }

    /// Whatever is missing before `number` will not come.
    pub(super) fn skip_to(&mut self, number: u64) {
        self.next = Some(number);
    }

    /// Batch `number` was applied.
    pub(super) fn applied(&mut self, number: u64, made: f64) {
        *self = Order { next: number.checked_add(1), made };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_numbers() {
        let mut order = Order::default();
        assert_eq!((order.judge(0, 1.0), order.judge(5, 1.0)), (Verdict::Next, Verdict::Gap(0)));
        order.applied(6, 10.0);
        assert_eq!(order.next(), 7);
        for (number, made, verdict) in [
            (7, 11.0, Verdict::Next),
            (9, 11.0, Verdict::Gap(7)),
            (6, 10.0, Verdict::Duplicate),
            (0, 3.0, Verdict::Duplicate),
            (0, 11.0, Verdict::Restart),
            (3, 11.0, Verdict::Restart),
            (3, f64::NAN, Verdict::Duplicate),
        ] {
            assert_eq!(order.judge(number, made), verdict, "{number} {made}");
        }
        order.applied(u64::MAX, 12.0);
        assert_eq!(order.judge(0, 13.0), Verdict::Next);
    }
}
