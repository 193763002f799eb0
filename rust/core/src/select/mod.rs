//! Filter → cost → pick. Choosing does not write: everything here takes shared references.

mod alternatives;
pub mod cost;
mod priced;
mod stable;

use crate::calibration::Calibration;
use crate::config::{Policy, RouterConfig};
use crate::ids::Slot;

/// What is known of one eligible worker when a decision is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Which worker.
    pub slot: Slot,
    /// A hash of its name, the same in every router.
    pub name_hash: u64,
    /// Leading tokens of the prompt that it holds and can use.
    pub overlap_tokens: u32,
    /// The tokens after them that it can bring back from a lower tier.
    pub lower_tokens: u32,
    /// Seconds until the prefill it already has is done.
    pub wait_seconds: f64,
    /// Uncached prompt tokens before their first token.
    pub queued_tokens: u64,
    /// Active requests.
    pub requests: u32,
    /// Context tokens of the active requests.
    pub context_tokens: u64,
    /// Its KV blocks are nearly all in active use: a last resort.
    pub full: bool,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Output tokens to expect.
    pub output_tokens: f64,
    /// Stands for the prompt's prefix, the same for prompts that share one.
    pub prefix: u64,
    /// Stands for the leading [`RouterConfig::hash_prefix_tokens`].
    pub head: u64,
    /// Stands for the session; the prefix where the request names none.
    pub session: u64,
    /// Workers that are computing this prefix and do not have it yet.
    pub copies_in_progress: u32,
    /// Counts decisions; what round robin turns on.
    pub turn: u64,
    /// A random number.
    pub random: u64,
}

/// Why a worker was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It holds the prefix.
    Warm,
    /// Another one holds the prefix, and waiting there would cost more.
    Spill,
    /// Nobody holds the prefix.
    Cold,
    /// A policy that does not ask who holds what.
    Balance,
}

impl Reason {
    /// Every reason, for tables by reason.
    pub const ALL: [Reason; 4] = [Reason::Warm, Reason::Spill, Reason::Cold, Reason::Balance];

    /// Its name in metrics, logs and replies.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Warm => "warm",
            Reason::Spill => "spill",
            Reason::Cold => "cold",
            Reason::Balance => "balance",
        }
    }
}

/// The chosen candidate, by its place, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The place in the candidates.
    pub index: usize,
    /// Why.
    pub reason: Reason,
}

/// Chooses among `candidates`; nothing where there are none.
pub fn pick(
    question: &Question,
    candidates: &[Candidate],
    config: &RouterConfig,
    prices: &Calibration,
) -> Option<Pick> {
    match config.policy {
        Policy::PricedAffinity => priced::pick(question, candidates, config, prices),
        Policy::RoundRobin => alternatives::round_robin(question, candidates),
        Policy::LeastRequests => alternatives::least_requests(question, candidates),
        Policy::PowerOfTwo => alternatives::power_of_two(question, candidates),
        Policy::ConsistentHash => alternatives::consistent_hash(question, candidates, config),
        Policy::SessionSticky => alternatives::session_sticky(question, candidates),
        Policy::Lmetric => alternatives::lmetric(question, candidates),
        Policy::StickyUntilSaturated => {
            alternatives::sticky_until_saturated(question, candidates, config, prices)
        }
        Policy::CacheAware => alternatives::cache_aware(question, candidates, config),
    }
}

/// The cheapest of the warm candidates, by its place; nothing where none is warm.
pub fn cheapest_warm(
    question: &Question,
    candidates: &[Candidate],
    config: &RouterConfig,
    prices: &Calibration,
) -> Option<usize> {
    priced::cheapest_warm(question, candidates, config, prices)
}
