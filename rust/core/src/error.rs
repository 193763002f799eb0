//! What can go wrong, whose fault it is, and what to do.

use std::fmt;
use std::time::Duration;

/// An option with a value that it does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The option's name.
    pub key: String,
    /// The value that was given, as text.
    pub value: String,
    /// What is allowed, for a person to read: a range, a list of choices, or the known names.
    pub allowed: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} is not allowed: use {}", self.key, self.value, self.allowed)
    }
}

impl std::error::Error for ConfigError {}

/// A change to the fleet that names a worker wrongly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetError {
    /// No worker has this name.
    UnknownWorker(String),
    /// A worker with this name is there already.
    DuplicateWorker(String),
    /// The worker's block size is not the router's, so that its cache cannot be predicted.
    BlockSize {
        /// The worker's name.
        worker: String,
        /// Tokens in a block of that worker.
        block_size: u32,
        /// Tokens in a block of this router.
        expected: u32,
    },
}

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FleetError::UnknownWorker(name) => write!(f, "no worker is named {name:?}"),
            FleetError::DuplicateWorker(name) => write!(f, "a worker named {name:?} is in the fleet already"),
            FleetError::BlockSize { worker, block_size, expected } => write!(
                f,
                "worker {worker:?} has blocks of {block_size} tokens and the router of {expected}: \
                 set block_size to {block_size}, or start the worker with --block-size {expected}"
            ),
        }
    }
}

impl std::error::Error for FleetError {}

/// Why no worker was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// No worker serves this model, and every worker has said which ones it serves.
    UnknownModel(String),
    /// The prompt is longer than any eligible worker takes.
    PromptTooLong {
        /// Tokens in the prompt.
        prompt_tokens: u32,
        /// The longest context of an eligible worker, in tokens.
        max_model_len: u32,
    },
    /// Workers serve the model, but each is down, draining or was to be avoided.
    NoEligibleWorker,
    /// Every eligible worker has as many requests as it may have.
    Saturated {
        /// When it is worth trying again.
        retry_after: Duration,
    },
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::UnknownModel(model) => write!(f, "no worker serves the model {model:?}"),
            RouteError::PromptTooLong { prompt_tokens, max_model_len } => write!(
                f,
                "the prompt has {prompt_tokens} tokens and the longest context in the fleet is {max_model_len}"
            ),
            RouteError::NoEligibleWorker => f.write_str("no worker is ready to take the request"),
            RouteError::Saturated { retry_after } => {
                write!(f, "every worker is saturated: try again in {:.1} s", retry_after.as_secs_f64())
            }
        }
    }
}

impl std::error::Error for RouteError {}
