//! The options of a router, each defined here and nowhere else.

use crate::calibration::Calibration;
use crate::options::Allowed::{Choice, Float, Int};
use crate::options::{Field, Value};

/// How a worker is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Warm workers first, each priced in seconds; leave them when waiting costs more than a cold prefill.
    #[default]
    PricedAffinity,
    /// Each worker in turn.
    RoundRobin,
    /// The fewest active requests.
    LeastRequests,
    /// The one with fewer requests of two random workers.
    PowerOfTwo,
    /// A hash of the prefix picks, within a bound of the mean load; needs no index.
    ConsistentHash,
    /// A hash of the session picks.
    SessionSticky,
    /// The smallest product of uncached tokens and active requests.
    Lmetric,
    /// The warm workers while they do not wait too long.
    StickyUntilSaturated,
    /// The longest overlap, or the shortest queue while the fleet is out of balance.
    CacheAware,
}

impl Policy {
    const ALL: [(&'static str, Policy); 9] = [
        ("priced-affinity", Policy::PricedAffinity),
        ("round-robin", Policy::RoundRobin),
        ("least-requests", Policy::LeastRequests),
        ("power-of-two", Policy::PowerOfTwo),
        ("consistent-hash", Policy::ConsistentHash),
        ("session-sticky", Policy::SessionSticky),
        ("lmetric", Policy::Lmetric),
        ("sticky-until-saturated", Policy::StickyUntilSaturated),
        ("cache-aware", Policy::CacheAware),
    ];
    /// The names of the policies, the default first.
    pub const NAMES: [&'static str; 9] = names(&Policy::ALL);

    /// Its name in flags and files.
    pub fn name(self) -> &'static str {
        name_of(&Policy::ALL, self)
    }
}

const CALIBRATIONS: [(&str, Calibration); 2] =
    [("a100-8b", Calibration::A100_8B), ("h100-8b", Calibration::H100_8B)];

const fn names<T: Copy, const N: usize>(table: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut i = 0;
    while i < N {
        names[i] = table[i].0;
        i += 1;
    }
    names
}

const CALIBRATION_NAMES: [&str; 2] = names(&CALIBRATIONS);

fn name_of<T: PartialEq + Copy, const N: usize>(table: &[(&'static str, T); N], value: T) -> &'static str {
    table.iter().find(|(_, each)| *each == value).map_or("custom", |(name, _)| name)
}

fn named<T: Copy, const N: usize>(table: &[(&'static str, T); N], value: Value) -> Option<T> {
    match value {
        Value::Choice(wanted) => table.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value),
        _ => None,
    }
}

impl Field for Policy {
    fn to_value(&self) -> Value {
        Value::Choice(self.name().to_owned())
    }
    fn from_value(value: Value) -> Option<Policy> {
        named(&Policy::ALL, value)
    }
}

impl Field for Calibration {
    fn to_value(&self) -> Value {
        Value::Choice(name_of(&CALIBRATIONS, *self).to_owned())
    }
    fn from_value(value: Value) -> Option<Calibration> {
        named(&CALIBRATIONS, value)
    }
}

crate::options! {
    /// The options of a router.
    pub struct RouterConfig {
        /// Tokens in one KV block; the same as the workers' `--block-size`.
        block_size: u32 = 16, Int(1, 4096), "tokens";
        /// How a worker is chosen.
        policy: Policy = Policy::PricedAffinity, Choice(&Policy::NAMES), "";
        /// What prefill and decode cost on the fleet's workers. The ratios between the prices decide, and they
        /// are close to one another on the GPUs measured; the level follows the observed time to first token.
        calibration: Calibration = Calibration::A100_8B, Choice(&CALIBRATION_NAMES), "";
        /// Tokens a second of a cold prefill on one worker; 0 takes the calibration's own.
        prefill_tokens_per_second: f64 = 0.0, Float(0.0, 1e9), "tokens/s";
        /// Memory that the prefix index may take, and the names of blocks of each worker whose KV events are
        /// followed.
        index_bytes: u64 = 1 << 30, Int(1 << 20, 1 << 40), "bytes";
        /// How long a block is assumed to be held by a worker that has not confirmed it. Where a worker sends no
        /// KV events its block pool bounds the assumption first.
        prediction_lifetime_ms: u64 = 1_800_000, Int(1, 604_800_000), "ms";
        /// KV blocks of a worker that has not told its own number.
        default_kv_blocks: u32 = 26_000, Int(1, 1 << 30), "blocks";
        /// The share of the prompt that a warm worker holds at least.
        warm_share: f64 = 0.5, Float(0.0, 1.0), "";
        /// What a token that comes back from a lower tier (the host's memory, a disk) costs, as a share of its
        /// prefill without attention. Host memory over PCIe takes about 0.1, a local NVMe disk 0.5; 1 is no gain.
        lower_tier_price: f64 = 0.1, Float(0.0, 1.0), "";
        /// How much of the prompt a warm worker may hold less than the warmest.
        warm_slack: f64 = 0.1, Float(0.0, 1.0), "";
        /// The least difference of cost for which a warm worker is left.
        spill_margin_ms: u64 = 100, Int(0, 600_000), "ms";
        /// The difference of cost for which a warm worker is left, in cold prefills of the prompt.
        spill_cold_prefills: f64 = 1.0, Float(0.0, 100.0), "";
        /// Workers whose costs differ by less than this many cold prefills are alike: the prefix's hash picks.
        stable_band: f64 = 0.25, Float(0.0, 100.0), "";
        /// The share of a worker's KV blocks in active use above which it is a last resort.
        full_share: f64 = 0.9, Float(0.1, 1.0), "";
        /// Requests that one worker may have at once; 0 sets no bound.
        max_requests_per_worker: u32 = 0, Int(0, 1_000_000), "requests";
        /// Output tokens of a request that declares none, until the tenant's mean is known.
        expected_output_tokens: u32 = 256, Int(1, 1_000_000), "tokens";
        /// `consistent-hash`: tokens of the prompt that are hashed.
        hash_prefix_tokens: u32 = 1024, Int(1, 1 << 20), "tokens";
        /// `consistent-hash`: a worker's load over the mean at which the next one is taken.
        hash_load_factor: f64 = 1.25, Float(1.0, 100.0), "";
        /// `sticky-until-saturated`: seconds of uncached prefill by which a warm worker may be behind.
        sticky_max_wait_ms: u64 = 14_000, Int(0, 600_000), "ms";
        /// `sticky-until-saturated`: the share of the prompt that a warm worker holds at least.
        sticky_share: f64 = 0.8, Float(0.0, 1.0), "";
        /// `cache-aware`: the share of the prompt above which the longest overlap is taken.
        cache_threshold: f64 = 0.3, Float(0.0, 1.0), "";
        /// `cache-aware`: the difference in requests between two workers above which the fleet is out of balance.
        balance_abs: u32 = 64, Int(0, 1_000_000), "requests";
        /// `cache-aware`: the ratio in requests between two workers above which the fleet is out of balance.
        balance_rel: f64 = 1.5, Float(1.0, 1000.0), "";
        /// The seed of block hashes. Routers that must choose alike have the same one.
        hash_seed: u64 = 0, Int(0, u64::MAX), "";
    }
}

impl RouterConfig {
    /// The prices in force: the calibration, at the configured speed where there is one.
    pub fn prices(&self) -> Calibration {
        let prices = self.calibration.at_lower_tier_price(self.lower_tier_price);
        if self.prefill_tokens_per_second > 0.0 {
            prices.at_prefill_rate(self.prefill_tokens_per_second)
        } else {
            prices
        }
    }
}
