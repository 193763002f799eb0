//! What an engine counts.

use super::StepTime;
use super::request::{Finish, Phase, Request};
use super::step_time::StepWork;

/// Totals since the start; tokens, requests and seconds of the engine's own time.
///
/// **Recomputation.** A prefill token is *recomputed* if it lies in a full block whose hash this engine had
/// computed before, for whichever request: what a cache without limit would have spared, and the last block
/// of a prompt that is cached whole. Its time is its share of the step's linear layers and of its chunk's
/// attention. `recompute_seconds / busy_seconds` is the share of engine time spent recomputing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Tokens of admitted requests that were looked up in the cache; a resumed request is not counted again.
    pub prefix_queries: u64,
    /// How many of them were found.
    pub prefix_hits: u64,
    /// Prompt tokens of requests that reached their first token, cached ones included.
    pub prompt_tokens: u64,
    /// How many of them were found in the cache.
    pub prompt_tokens_cached: u64,
    /// Generated tokens.
    pub generation_tokens: u64,
    /// Requests whose blocks were taken away.
    pub preemptions: u64,
    /// Requests that ended with [`Finish::Stop`].
    pub finished_stop: u64,
    /// Requests that ended with [`Finish::Length`].
    pub finished_length: u64,
    /// Requests that were aborted. vLLM has no counter that moves then.
    pub aborted: u64,
    /// Steps.
    pub steps: u64,
    /// Tokens computed in steps, prefill and decode.
    pub computed_tokens: u64,
    /// Prefill tokens that had been computed before.
    pub recomputed_tokens: u64,
    /// Seconds spent in steps.
    pub busy_seconds: f64,
    /// Seconds of them spent on prefill.
    pub prefill_seconds: f64,
    /// Seconds of them spent on prefill tokens that had been computed before.
    pub recompute_seconds: f64,
    /// From arrival to the first token.
    pub ttft: Histogram<22>,
    /// Between two tokens of a request.
    pub inter_token: Histogram<19>,
    /// From arrival to the last token.
    pub e2e: Histogram<21>,
    /// From arrival to admission.
    pub queue: Histogram<21>,
    /// From admission to the first token.
    pub prefill: Histogram<21>,
    /// From the first token to the last.
    pub decode: Histogram<21>,
    /// From admission to the last token.
    pub inference: Histogram<21>,
    /// A request's mean time between its tokens.
    pub time_per_output_token: Histogram<19>,
    /// Prompt tokens of finished requests.
    pub request_prompt_tokens: Histogram<12>,
    /// Generated tokens of finished requests.
    pub request_generation_tokens: Histogram<12>,
    /// Tokens in a step.
    pub iteration_tokens: Histogram<13>,
}

impl Counters {
    pub(super) fn admitted(&mut self, request: &Request, cached: u32) {
        if request.phase == Phase::Waiting {
            self.prefix_queries += u64::from(request.tokens());
            self.prefix_hits += u64::from(cached);
        }
    }

    pub(super) fn step(&mut self, work: &StepWork, seconds: f64, time: &StepTime) {
        self.steps += 1;
        self.computed_tokens += work.tokens();
        self.recomputed_tokens += work.recomputed_tokens();
        self.busy_seconds += seconds;
        self.prefill_seconds += work.prefill_seconds(time);
        self.recompute_seconds += work.recompute_seconds(time);
        self.iteration_tokens.observe(work.tokens() as f64, &buckets::ITERATION_TOKENS);
    }

    /// A request has one more token, at `now`.
    pub(super) fn token(&mut self, request: &mut Request, now: f64) {
        self.generation_tokens += 1;
        let generated = request.outputs.len() as u32;
        if generated == 1 {
            request.first_token = now;
            self.prompt_tokens += request.prompt.len() as u64;
            self.prompt_tokens_cached += u64::from(request.cached_tokens.unwrap_or(0));
            self.ttft.observe(now - request.arrived, &buckets::TTFT);
        } else {
            self.inter_token.observe(now - request.last_token, &buckets::PER_TOKEN);
        }
        request.last_token = now;
        if generated == request.output_tokens {
            self.finished(request);
        }
    }

    fn finished(&mut self, request: &Request) {
        match request.finish {
            Finish::Stop => self.finished_stop += 1,
            Finish::Length => self.finished_length += 1,
        }
        let Request { arrived, admitted, first_token, last_token, .. } = *request;
        let generated = request.outputs.len() as f64;
        self.e2e.observe(last_token - arrived, &buckets::REQUEST);
        self.queue.observe(admitted - arrived, &buckets::REQUEST);
        self.prefill.observe(first_token - admitted, &buckets::REQUEST);
        self.decode.observe(last_token - first_token, &buckets::REQUEST);
        self.inference.observe(last_token - admitted, &buckets::REQUEST);
        if generated > 1.0 {
            self.time_per_output_token
                .observe((last_token - first_token) / (generated - 1.0), &buckets::PER_TOKEN);
        }
        self.request_prompt_tokens.observe(request.prompt.len() as f64, &buckets::REQUEST_TOKENS);
        self.request_generation_tokens.observe(generated, &buckets::REQUEST_TOKENS);
    }
}

/// Upper bounds of the buckets that vLLM 0.32 uses, in seconds or tokens.
pub(crate) mod buckets {
    pub(crate) const TTFT: [f64; 22] = [
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
        40.0, 80.0, 160.0, 640.0, 2560.0,
    ];
    pub(crate) const PER_TOKEN: [f64; 19] = [
        0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
        80.0,
    ];
    pub(crate) const REQUEST: [f64; 21] = [
        0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
        480.0, 960.0, 1920.0, 7680.0,
    ];
    pub(crate) const REQUEST_TOKENS: [f64; 12] =
        [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0];
    pub(crate) const ITERATION_TOKENS: [f64; 13] =
        [1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
}

/// How many observations fell under each of N upper bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram<const N: usize> {
    buckets: [u64; N],
    count: u64,
    sum: f64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Histogram<N> {
        Histogram { buckets: [0; N], count: 0, sum: 0.0 }
    }
}

impl<const N: usize> Histogram<N> {
    pub(super) fn observe(&mut self, value: f64, bounds: &[f64; N]) {
        self.count += 1;
        self.sum += value;
        // A value above every bound is in `count` alone.
        if let Some(bucket) = bounds.iter().position(|&bound| value <= bound) {
            self.buckets[bucket] += 1;
        }
    }

    /// Observations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// For each upper bound, how many observations are at most that.
    pub fn cumulative(&self) -> impl Iterator<Item = u64> + '_ {
        self.buckets.iter().scan(0, |total, &bucket| {
            *total += bucket;
            Some(*total)
        })
    }
}
