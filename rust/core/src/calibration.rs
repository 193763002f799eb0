//! What prefill and decode cost, in seconds.

/// The prices of one kind of worker.
///
/// A step with `P` prefill tokens and `n` decoding requests takes
/// `max(t0, a1·(P+n)) + a2·Σ n_j·(ctx_j + n_j/2) + d1·n + d2·Σ ctx` seconds. The two presets are fitted to
/// NVIDIA AIConfigurator's silicon tables for Llama-3.1-8B in bf16 under vLLM, with a mean error of 2 to 7 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Seconds for each token of a step.
    pub a1: f64,
    /// Seconds for each pair of a prefilled token and a token before it.
    pub a2: f64,
    /// Seconds of the shortest step.
    pub t0: f64,
    /// Seconds for each decoding request of a step.
    pub d1: f64,
    /// Seconds for each context token of the decoding requests of a step.
    pub d2: f64,
    /// Seconds for each token that is brought back from a lower tier.
    pub l1: f64,
}

impl Calibration {
    /// An A100 SXM.
    pub const A100_8B: Calibration =
        Calibration { a1: 5.52e-5, a2: 2.94e-9, t0: 11.5e-3, d1: 2.5e-5, d2: 9.0e-8, l1: 5.52e-6 };
    /// An H100 SXM.
    pub const H100_8B: Calibration =
        Calibration { a1: 2.14e-5, a2: 7.8e-10, t0: 6.2e-3, d1: 1.2e-5, d2: 4.15e-8, l1: 2.14e-6 };

    /// The prompt length for which a prefill rate is quoted, in tokens.
    const RATE_PROMPT_TOKENS: u32 = 8192;

    /// These prices scaled so that a cold prompt of 8,192 tokens takes `tokens_per_second`.
    #[must_use]
    pub fn at_prefill_rate(self, tokens_per_second: f64) -> Calibration {
        let tokens = Calibration::RATE_PROMPT_TOKENS;
        let scale = f64::from(tokens) / tokens_per_second / self.cold(tokens);
        Calibration {
            a1: self.a1 * scale,
            a2: self.a2 * scale,
            t0: self.t0 * scale,
            d1: self.d1 * scale,
            d2: self.d2 * scale,
            l1: self.l1 * scale,
        }
    }

    /// Seconds to prefill the last `uncached` tokens of a prompt of `prompt` tokens.
    pub fn prefill(&self, uncached: u32, prompt: u32) -> f64 {
        let (u, l) = (f64::from(uncached), f64::from(prompt));
        self.a1 * u + self.a2 * u * (l - u / 2.0)
    }

    /// Seconds to prefill a prompt of which nothing is cached.
    pub fn cold(&self, prompt: u32) -> f64 {
        self.prefill(prompt, prompt)
    }

    /// These prices, where a token that is brought back from a lower tier costs `share` of a prefilled one.
    #[must_use]
    pub fn at_lower_tier_price(self, share: f64) -> Calibration {
        Calibration { l1: self.a1 * share, ..self }
    }

    /// Seconds to bring `tokens` back from a lower tier.
    pub fn transfer(&self, tokens: u32) -> f64 {
        self.l1 * f64::from(tokens)
    }

    /// Seconds that one decode step takes longer for `requests` others with `context` tokens in all.
    pub fn decode_share(&self, requests: u32, context: u64) -> f64 {
        self.d2 * context as f64 + self.d1 * f64::from(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_prompt_of_30k_takes_what_the_tables_say() {
        assert!((Calibration::A100_8B.cold(30_000) - 3.02).abs() < 0.1);
        assert!((Calibration::H100_8B.cold(30_000) - 0.96).abs() < 0.05);
    }

    #[test]
    fn a_prefill_rate_scales_every_price() {
        let slow = Calibration::A100_8B.at_prefill_rate(1000.0);
        assert!((slow.cold(8192) - 8.192).abs() < 1e-9);
        assert!((slow.d2 / slow.a1 - Calibration::A100_8B.d2 / Calibration::A100_8B.a1).abs() < 1e-12);
    }
}
