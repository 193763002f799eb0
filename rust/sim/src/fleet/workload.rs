//! Who sends what, and when.

use std::sync::Arc;

use super::Rng;
use crate::engine::{ConfigError, Space};

/// What one request asks for.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The token ids.
    pub tokens: Arc<[u32]>,
    /// How many of them are the prefix that the group shares.
    pub prefix_tokens: u32,
    /// The group whose prefix it has.
    pub group: u32,
    /// Tokens of the reply.
    pub output_tokens: u32,
    /// What separates its blocks from others'.
    pub space: Arc<Space>,
}

/// Makes prompts.
pub trait Prompts {
    /// The prompt of request number `request`, which client number `client` sends. `rng` is that request's
    /// own: the prompt does not depend on when it is asked for.
    fn prompt(&mut self, request: u64, client: u32, rng: &mut Rng) -> Prompt;
}

/// When requests come.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// So many clients, each of which sends its next request when the last one has ended.
    Closed {
        /// How many.
        clients: u32,
    },
    /// Poisson arrivals, whatever becomes of them.
    Open {
        /// One phase after the other; the last one goes on.
        phases: Vec<Phase>,
    },
}

/// A stretch of time with one rate of arrivals.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// How long it lasts, in seconds.
    pub seconds: f64,
    /// Requests a second.
    pub rate: f64,
}

/// A client's patience.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Seconds it waits for the first token of a sending.
    pub ttft: f64,
    /// How often it tries again then.
    pub retries: u32,
    /// Whether its leaving reaches the worker; if not, the worker computes for nobody.
    pub aborts: bool,
}

/// A workload, apart from its prompts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// When requests come.
    pub arrivals: Arrivals,
    /// How many come.
    pub requests: u64,
    /// How many of them, the first ones, are not measured.
    pub warm_up: u64,
    /// When clients give up; none is never.
    pub patience: Option<Patience>,
    /// Decides arrivals and prompts.
    pub seed: u64,
}

impl Plan {
    /// Refuses what cannot be played.
    ///
    /// # Errors
    /// [`ConfigError`] names the option, its value and what it must be.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.warm_up >= self.requests {
            let allowed = format!("less than the {} requests", self.requests);
            return Err(ConfigError::new("warm_up", self.warm_up.to_string(), allowed));
        }
        match &self.arrivals {
            Arrivals::Closed { clients: 0 } => Err(ConfigError::new("clients", "0", "at least 1")),
            Arrivals::Open { phases } if phases.is_empty() || !phases.iter().all(Phase::is_possible) => {
                let allowed = "at least one, each with a length and a rate above 0";
                Err(ConfigError::new("phases", format!("{phases:?}"), allowed))
            }
            _ => Ok(()),
        }
    }
}

impl Phase {
    fn is_possible(&self) -> bool {
        self.seconds > 0.0 && self.rate > 0.0 && self.rate.is_finite()
    }
}

/// Prompts of a shared prefix and a tail of their own.
#[derive(Clone, Debug)]
pub struct SharedPrefixes {
    prefixes: Vec<Arc<[u32]>>,
    /// For each group, the share of requests that are of it or of one before it.
    popularity: Vec<f64>,
    tail_tokens: (u32, u32),
    output_tokens: u32,
    space: Arc<Space>,
}

/// Ids stay below a usual vocabulary.
const VOCABULARY: u32 = 128_000;

impl SharedPrefixes {
    /// Groups of the given weights, each with a prefix of `prefix_tokens` tokens; tails have `tail_tokens`,
    /// least and most.
    pub fn new(
        weights: &[f64],
        prefix_tokens: u32,
        tail_tokens: (u32, u32),
        output_tokens: u32,
        seed: u64,
    ) -> SharedPrefixes {
        let total: f64 = weights.iter().sum();
        let popularity = weights.iter().scan(0.0, |sum, weight| {
            *sum += weight / total;
            Some(*sum)
        });
        // Streams of prefixes lie apart from those of requests, which count from 0.
        let prefix = |group: u64| ids(&mut Rng::new(seed, !group), prefix_tokens).collect();
        SharedPrefixes {
            prefixes: (0..weights.len() as u64).map(prefix).collect(),
            popularity: popularity.collect(),
            tail_tokens,
            output_tokens,
            space: Arc::default(),
        }
    }

    /// The seed scenario: 24 agents of equal weight with system prompts of 30,000 tokens, user turns of 200
    /// to 1,500 tokens and replies of 120.
    pub fn agents(seed: u64) -> SharedPrefixes {
        SharedPrefixes::new(&[1.0; 24], 30_000, (200, 1_500), 120, seed)
    }

    /// Weights by rank as in a Zipf distribution.
    pub fn zipf(groups: u32, exponent: f64) -> Vec<f64> {
        (1..=groups).map(|rank| f64::from(rank).powf(-exponent)).collect()
    }

    /// The prefixes by group.
    pub fn prefixes(&self) -> &[Arc<[u32]>] {
        &self.prefixes
    }
}

impl Prompts for SharedPrefixes {
    fn prompt(&mut self, _request: u64, _client: u32, rng: &mut Rng) -> Prompt {
        let place = rng.unit();
        let group = self.popularity.partition_point(|&share| share <= place).min(self.prefixes.len() - 1);
        let prefix = &self.prefixes[group];
        let tail = rng.within(self.tail_tokens.0, self.tail_tokens.1);
        Prompt {
            tokens: prefix.iter().copied().chain(ids(rng, tail)).collect(),
            prefix_tokens: prefix.len() as u32,
            group: group as u32,
            output_tokens: self.output_tokens,
            space: Arc::clone(&self.space),
        }
    }
}

fn ids(rng: &mut Rng, tokens: u32) -> impl Iterator<Item = u32> + '_ {
    (0..tokens).map(|_| rng.within(0, VOCABULARY - 1))
}
