//! What a run came to.

use std::fmt;

use crate::engine::Counters;

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The group of its prompt.
    pub group: u32,
    /// When it was first sent.
    pub arrived: f64,
    /// Seconds from there to the first token of the reply that was kept; none if there was none.
    pub ttft: Option<f64>,
    /// Seconds from there to the end of that reply.
    pub e2e: Option<f64>,
    /// How often it was sent.
    pub sends: u32,
}

/// Quantiles of something, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Half are at most this.
    pub p50: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
}

impl Spread {
    /// The quantiles of `values`; zero of none.
    pub fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
        };
        Spread { p50: at(0.5), p99: at(0.99) }
    }
}

/// What a run came to, the warm-up left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Prompt tokens found in a cache, of those looked up.
    pub hit_rate: f64,
    /// Requests answered in full a second, from the end of the warm-up to the last arrival.
    pub goodput: f64,
    /// Requests that got a full answer, of those measured.
    pub success: f64,
    /// From a request's arrival to its first token.
    pub ttft: Spread,
    /// From a request's arrival to its last token.
    pub e2e: Spread,
    /// The busiest engine's time in steps over the mean.
    pub busy_max_over_mean: f64,
    /// The share of engine time spent on prefill that the same engine had computed before.
    pub recompute_share: f64,
    /// Workers that hold nine tenths of a group's prefix at the end; the mean over groups.
    pub copies_per_prefix: f64,
    /// Sendings that the route saw, for each request.
    pub sends_per_request: f64,
    /// Sendings that the route refused.
    pub refused: u64,
    /// Requests whose blocks were taken away.
    pub preemptions: u64,
    /// Every request in the order of arrival, those of the warm-up included.
    pub outcomes: Vec<Outcome>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "hit {:.3}  goodput {:.2}/s  success {:.3}  TTFT {:.2}/{:.2} s  E2E {:.2}/{:.2} s  busy {:.2}  \
             recompute {:.2}  copies {:.2}  sends {:.2}  preemptions {}",
            self.hit_rate,
            self.goodput,
            self.success,
            self.ttft.p50,
            self.ttft.p99,
            self.e2e.p50,
            self.e2e.p99,
            self.busy_max_over_mean,
            self.recompute_share,
            self.copies_per_prefix,
            self.sends_per_request,
            self.preemptions,
        )
    }
}

/// The engines' totals that a report is made of.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    queries: u64,
    hits: u64,
    preemptions: u64,
    recompute_seconds: f64,
    busy: Vec<f64>,
}

impl Totals {
    pub(super) fn of<'a>(counters: impl Iterator<Item = &'a Counters>) -> Totals {
        counters.fold(Totals::default(), |mut totals, counters| {
            totals.queries += counters.prefix_queries;
            totals.hits += counters.prefix_hits;
            totals.preemptions += counters.preemptions;
            totals.recompute_seconds += counters.recompute_seconds;
            totals.busy.push(counters.busy_seconds);
            totals
        })
    }

    /// What was added since `before`.
    pub(super) fn since(&self, before: &Totals) -> Totals {
        // An engine that did not exist then had done nothing.
        let earlier = |worker: usize| before.busy.get(worker).copied().unwrap_or(0.0);
        Totals {
            queries: self.queries - before.queries,
            hits: self.hits - before.hits,
            preemptions: self.preemptions - before.preemptions,
            recompute_seconds: self.recompute_seconds - before.recompute_seconds,
            busy: self.busy.iter().enumerate().map(|(worker, busy)| busy - earlier(worker)).collect(),
        }
    }

    pub(super) fn hit_rate(&self) -> f64 {
        ratio(self.hits as f64, self.queries as f64)
    }

    pub(super) fn preemptions(&self) -> u64 {
        self.preemptions
    }

    pub(super) fn recompute_share(&self) -> f64 {
        ratio(self.recompute_seconds, self.busy.iter().sum())
    }

    pub(super) fn busy_max_over_mean(&self) -> f64 {
        let mean = ratio(self.busy.iter().sum(), self.busy.len() as f64);
        ratio(self.busy.iter().copied().fold(0.0, f64::max), mean)
    }
}

/// `part / whole`, and zero of nothing.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}
