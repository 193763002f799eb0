//! How many retries are allowed: a share of recent requests, and a small floor.

/// Seconds that count as recent.
const WINDOW: usize = 10;

/// Requests and retries of the last [`WINDOW`] seconds.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    share: f64,
    floor: f64,
    requests: [u64; WINDOW],
    retries: [u64; WINDOW],
    slot: usize,
    seen: u64,
}

impl RetryBudget {
    /// `share` of the requests, and `floor` a second in any case.
    pub(crate) fn new(share: f64, floor: f64) -> RetryBudget {
        RetryBudget { share, floor, requests: [0; WINDOW], retries: [0; WINDOW], slot: 0, seen: 0 }
    }

    /// A second went by, and `total` requests have ended since the start.
    pub(crate) fn tick(&mut self, total: u64) {
        self.slot = (self.slot + 1) % WINDOW;
        self.requests[self.slot] = total.saturating_sub(self.seen);
        self.retries[self.slot] = 0;
        self.seen = total;
    }

    /// Takes one retry where the budget has it; `total` requests have ended since the start.
    pub(crate) fn take(&mut self, total: u64) -> bool {
        let recent = self.requests.iter().sum::<u64>() + total.saturating_sub(self.seen);
        let allowed = self.share * recent as f64 + self.floor * WINDOW as f64;
        let taken = self.retries.iter().sum::<u64>() + 1;
        let has = taken as f64 <= allowed;
        self.retries[self.slot] += u64::from(has);
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(budget: &mut RetryBudget, total: u64) -> usize {
        (0..1000).take_while(|_| budget.take(total)).count()
    }

    #[test]
    fn a_share_of_recent_requests_and_a_floor() {
        let mut budget = RetryBudget::new(0.1, 1.0);
        assert_eq!(takes(&mut budget, 0), 10);
        assert_eq!(takes(&mut budget, 500), 50);
        budget.tick(500);
        assert_eq!(takes(&mut budget, 500), 0);
        for _ in 1..WINDOW {
            budget.tick(500);
        }
        // The retries are forgotten a window after they were made; the requests a second later.
        assert_eq!(takes(&mut budget, 500), 60);
        budget.tick(500);
        assert_eq!(takes(&mut budget, 500), 0);
    }

    #[test]
    fn none_without_share_and_floor() {
        let mut budget = RetryBudget::new(0.0, 0.0);
        assert!(!budget.take(1_000_000));
    }
}
