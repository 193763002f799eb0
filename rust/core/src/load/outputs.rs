//! How many output tokens a tenant's requests have.

use std::collections::HashMap;

/// Tenants that are told apart. Later ones share the fleet's mean, so that names cannot fill the memory.
const MAX_TENANTS: usize = 1024;

/// Requests after which a mean is trusted more than what a request declares.
const TRUSTED_AFTER: u32 = 8;

/// A declared limit counts up to this many times what is expected of a request that declares none: anybody can
/// declare four billion, and must not make every worker look full.
const DECLARED_AT_MOST: f64 = 16.0;

/// The weight of one more request in a mean, once it is trusted.
const WEIGHT: f64 = 0.1;

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    tokens: f64,
    requests: u32,
}

impl Mean {
    fn observe(&mut self, tokens: f64) {
        self.requests = self.requests.saturating_add(1);
        let weight = WEIGHT.max(1.0 / f64::from(self.requests));
        self.tokens += weight * (tokens - self.tokens);
    }

    fn trusted(&self) -> Option<f64> {
        (self.requests >= TRUSTED_AFTER).then_some(self.tokens)
    }
}

/// Moving means of output lengths, by tenant and of all.
#[derive(Debug, Default)]
pub(crate) struct OutputMeans {
    tenants: HashMap<Box<str>, Mean>,
    all: Mean,
}

impl OutputMeans {
    pub(crate) fn observe(&mut self, tenant: &str, tokens: u32) {
        self.all.observe(f64::from(tokens));
        if let Some(mean) = self.tenants.get_mut(tenant) {
            mean.observe(f64::from(tokens));
        } else if self.tenants.len() < MAX_TENANTS {
            self.tenants.entry(tenant.into()).or_default().observe(f64::from(tokens));
        }
    }

    /// Output tokens to expect: the tenant's mean, at most what the request declares.
    ///
    /// A declared limit is often far above what comes, and would make every busy worker look dearer than it is.
    pub(crate) fn expect(&self, tenant: &str, declared: Option<u32>, unknown: u32) -> f64 {
        let learned = self.tenants.get(tenant).and_then(Mean::trusted).or_else(|| self.all.trusted());
        match (learned, declared) {
            (Some(mean), Some(limit)) => mean.min(f64::from(limit)),
            (Some(mean), None) => mean,
            (None, Some(limit)) => f64::from(limit).min(DECLARED_AT_MOST * f64::from(unknown)),
            (None, None) => f64::from(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_limit_holds_until_the_mean_is_known() {
        let mut means = OutputMeans::default();
        assert_eq!(means.expect("a", None, 256), 256.0);
        assert_eq!(means.expect("a", Some(4096), 256), 4096.0);
        assert_eq!(means.expect("a", Some(u32::MAX), 256), 4096.0);
        for _ in 0..TRUSTED_AFTER {
            means.observe("a", 100);
        }
        assert!((means.expect("a", Some(4096), 256) - 100.0).abs() < 1e-9);
        assert!((means.expect("a", Some(10), 256) - 10.0).abs() < 1e-9);
        assert!((means.expect("stranger", None, 256) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn tenants_are_bounded() {
        let mut means = OutputMeans::default();
        for tenant in 0..2 * MAX_TENANTS {
            means.observe(&tenant.to_string(), 1);
        }
        assert_eq!(means.tenants.len(), MAX_TENANTS);
    }
}
