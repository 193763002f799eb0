//! How long a step takes.

use super::ConfigError;

/// The constants of the step time, in seconds:
/// `max(t0, a1·(P + n)) + a2·Σ nⱼ·(ctxⱼ + nⱼ/2) + d1·n + d2·Σ ctx`,
/// with P prefill tokens (chunk j has nⱼ of them after ctxⱼ that are computed) and n decodes in the step.
///
/// The presets are fitted to AIConfigurator 0.12's vLLM tables for Llama-3.1-8B in bf16 on one GPU. The mean
/// error of the fit over prefill, decode and mixed steps is 3.2, 2.0 and 2.6 % for the H100 and 6.1, 6.4 and
/// 2.8 % for the A100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTime {
    /// A token's linear layers.
    pub a1: f64,
    /// One prefill token's attention to one token before it.
    pub a2: f64,
    /// The least that a step's linear layers take: reading the weights.
    pub t0: f64,
    /// A decode's fixed part.
    pub d1: f64,
    /// A decode's attention to one token of its context.
    pub d2: f64,
}

impl StepTime {
    /// H100 SXM.
    pub const H100_8B: StepTime = StepTime { a1: 2.14e-5, a2: 7.8e-10, t0: 6.2e-3, d1: 1.2e-5, d2: 4.15e-8 };
    /// A100 SXM.
    pub const A100_8B: StepTime = StepTime { a1: 5.52e-5, a2: 2.94e-9, t0: 11.5e-3, d1: 2.5e-5, d2: 9.0e-8 };

    /// The preset of this name: `h100-8b` or `a100-8b`.
    ///
    /// # Errors
    /// [`ConfigError`] lists the presets when there is none of this name.
    pub fn preset(name: &str) -> Result<StepTime, ConfigError> {
        match name {
            "h100-8b" => Ok(StepTime::H100_8B),
            "a100-8b" => Ok(StepTime::A100_8B),
            _ => Err(ConfigError::new("gpu", name, "h100-8b or a100-8b")),
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let parts = [("a1", self.a1), ("a2", self.a2), ("t0", self.t0), ("d1", self.d1), ("d2", self.d2)];
        for (name, value) in parts {
            if !(value.is_finite() && value >= 0.0) {
                return Err(ConfigError::new(name, value.to_string(), "a number of seconds, 0 or more"));
            }
        }
        // Steps that take no time would let an engine step for ever at one moment.
        if self.t0 <= 0.0 {
            return Err(ConfigError::new("t0", self.t0.to_string(), "more than 0 seconds"));
        }
        Ok(())
    }
}

/// What one step computes; its time follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StepWork {
    /// Tokens of prefill.
    prefill_tokens: u64,
    /// `Σ nⱼ·(ctxⱼ + nⱼ/2)` over the chunks of prefill.
    prefill_attention: f64,
    /// How many requests decode.
    decodes: u64,
    /// The sum of their contexts.
    decode_context: u64,
    /// Tokens of prefill that this engine had computed before.
    recomputed_tokens: u64,
    /// Their part of `prefill_attention`.
    recomputed_attention: f64,
}

impl StepWork {
    /// Adds a chunk of `tokens` after `context` computed ones; `again` of them had been computed before.
    pub(super) fn add_prefill(&mut self, tokens: u32, context: u32, again: u32) {
        let attention = f64::from(tokens) * (f64::from(context) + f64::from(tokens) / 2.0);
        self.prefill_tokens += u64::from(tokens);
        self.prefill_attention += attention;
        self.recomputed_tokens += u64::from(again);
        self.recomputed_attention += attention * f64::from(again) / f64::from(tokens);
    }

    /// Adds one decode after `context` computed tokens.
    pub(super) fn add_decode(&mut self, context: u32) {
        self.decodes += 1;
        self.decode_context += u64::from(context);
    }

    /// Tokens in the step.
    pub(super) fn tokens(&self) -> u64 {
        self.prefill_tokens + self.decodes
    }

    pub(super) fn recomputed_tokens(&self) -> u64 {
        self.recomputed_tokens
    }

    /// Seconds the step takes.
    pub(super) fn seconds(&self, time: &StepTime) -> f64 {
        self.linear(time)
            + time.a2 * self.prefill_attention
            + time.d1 * self.decodes as f64
            + time.d2 * self.decode_context as f64
    }

    /// Seconds of the step that its prefill takes: its share by tokens of the linear layers, and attention.
    pub(super) fn prefill_seconds(&self, time: &StepTime) -> f64 {
        self.share(time, self.prefill_tokens) + time.a2 * self.prefill_attention
    }

    /// Seconds of the step that go to prefill tokens which had been computed before.
    pub(super) fn recompute_seconds(&self, time: &StepTime) -> f64 {
        self.share(time, self.recomputed_tokens) + time.a2 * self.recomputed_attention
    }

    fn linear(&self, time: &StepTime) -> f64 {
        time.t0.max(time.a1 * self.tokens() as f64)
    }

    fn share(&self, time: &StepTime, tokens: u64) -> f64 {
        if tokens == 0 { 0.0 } else { self.linear(time) * tokens as f64 / self.tokens() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cold_prefill(time: &StepTime, tokens: u32) -> f64 {
        (0..tokens)
            .step_by(2048)
            .map(|context| {
                let mut work = StepWork::default();
                work.add_prefill(2048.min(tokens - context), context, 0);
                work.seconds(time)
            })
            .sum()
    }

    fn decode(time: &StepTime, batch: u32) -> f64 {
        let mut work = StepWork::default();
        (0..batch).for_each(|_| work.add_decode(30_000));
        work.seconds(time)
    }

    fn near(got: f64, want: f64, error: f64) {
        assert!((got / want - 1.0).abs() <= error, "{got} is not within {error} of {want}");
    }

    // The published values and twice the mean error of the fit, which single points exceed.
    #[test]
    fn presets_give_the_measured_times() {
        near(cold_prefill(&StepTime::H100_8B, 30_000), 0.96, 0.064);
        near(cold_prefill(&StepTime::A100_8B, 30_000), 3.02, 0.122);
        near(decode(&StepTime::H100_8B, 16), 0.027, 0.04);
        near(decode(&StepTime::H100_8B, 64), 0.087, 0.04);
        near(decode(&StepTime::A100_8B, 16), 0.050, 0.128);
        near(decode(&StepTime::A100_8B, 64), 0.213, 0.128);
    }

    #[test]
    fn five_hundred_tokens_on_a_warm_prefix_cost_what_was_measured() {
        for (time, want, error) in [(StepTime::H100_8B, 0.024, 0.064), (StepTime::A100_8B, 0.081, 0.122)] {
            let mut work = StepWork::default();
            work.add_prefill(512, 30_000, 0);
            near(work.seconds(&time), want, error);
        }
    }

    #[test]
    fn shares_of_a_step_add_up() {
        let time = StepTime::A100_8B;
        let mut work = StepWork::default();
        work.add_prefill(1000, 2000, 250);
        work.add_prefill(500, 0, 500);
        let only_prefill = work;
        assert!((only_prefill.prefill_seconds(&time) - only_prefill.seconds(&time)).abs() < 1e-12);
        (0..10).for_each(|_| work.add_decode(300));
        let share = work.prefill_seconds(&time);
        assert!(share < work.seconds(&time) && share > 0.9 * work.seconds(&time));
        let again = work.recompute_seconds(&time);
        assert!(again > 0.3 * share && again < 0.5 * share, "{again} of {share}");
    }

    #[test]
    fn an_unknown_preset_lists_the_known_ones() {
        let error = StepTime::preset("b200").unwrap_err();
        assert_eq!(error.to_string(), "gpu is b200, and must be h100-8b or a100-8b");
    }
}
