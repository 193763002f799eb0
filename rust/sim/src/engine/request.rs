//! A request, as a caller gives it and as the engine keeps it.

use std::fmt;
use std::sync::Arc;

use super::pool::BlockId;

/// A request's name in one engine; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What separates two prompts with equal tokens: their blocks are never shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// vLLM's `cache_salt`.
    pub salt: Option<String>,
    /// The LoRA adapter.
    pub lora: Option<Lora>,
}

/// A LoRA adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lora {
    /// Its number in the engine, from 1.
    pub id: u32,
    /// Its name, which is the model's name in a request.
    pub name: String,
}

/// A request, as a caller gives it.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The prompt's token ids.
    pub prompt: Arc<[u32]>,
    /// How many tokens it generates, fewer where the window ends first.
    pub output_tokens: u32,
    /// Why it ends after `output_tokens`: the model stopped, or the caller's limit was reached.
    pub finish: Finish,
    /// What separates its blocks from others'.
    pub space: Arc<Space>,
}

/// Why a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// The model ended its answer.
    Stop,
    /// The caller's limit or the window was reached.
    Length,
}

/// Why the engine refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// There is no token to compute.
    EmptyPrompt,
    /// No output token was asked for.
    NoOutput,
    /// The prompt leaves no room for an output token in the window.
    PromptTooLong {
        /// The prompt's tokens.
        tokens: usize,
        /// Tokens of prompt and output together at most.
        max_model_len: u32,
    },
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubmitError::EmptyPrompt => write!(f, "the prompt has no token"),
            SubmitError::NoOutput => write!(f, "output_tokens is 0, and must be at least 1"),
            SubmitError::PromptTooLong { tokens, max_model_len } => {
                write!(f, "the prompt has {tokens} tokens, and must have fewer than {max_model_len}")
            }
        }
    }
}

impl std::error::Error for SubmitError {}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    /// Its blocks were taken away; it waits to be computed again.
    Preempted,
    Running,
}

/// A request, as the engine keeps it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: RequestId,
    pub(super) prompt: Arc<[u32]>,
    pub(super) outputs: Vec<u32>,
    pub(super) output_tokens: u32,
    pub(super) finish: Finish,
    pub(super) space: Arc<Space>,
    /// What the first block is chained to.
    pub(super) root: u64,
    /// Hashes of the full blocks of prompt and outputs.
    pub(super) hashes: Vec<u64>,
    /// Decides the output's ids: equal prompts have equal outputs, as with greedy sampling.
    pub(super) output_seed: u64,
    pub(super) phase: Phase,
    /// Whether the step under way computes some of its tokens.
    pub(super) in_step: bool,
    /// Tokens whose KV is computed, or will be at the end of the step under way.
    pub(super) computed: u32,
    pub(super) blocks: Vec<BlockId>,
    /// How many of `blocks` carry their hash.
    pub(super) stored: usize,
    /// Tokens found in the cache when it was first admitted; none until then.
    pub(super) cached_tokens: Option<u32>,
    pub(super) arrived: f64,
    pub(super) admitted: f64,
    pub(super) first_token: f64,
    pub(super) last_token: f64,
}

impl Request {
    pub(super) fn tokens(&self) -> u32 {
        (self.prompt.len() + self.outputs.len()) as u32
    }

    /// The ids at `from..to`, which may lie on both sides of the prompt's end.
    pub(super) fn ids(&self, from: usize, to: usize) -> Vec<u32> {
        let end = self.prompt.len();
        let mut ids = Vec::with_capacity(to - from);
        ids.extend_from_slice(&self.prompt[from.min(end)..to.min(end)]);
        ids.extend_from_slice(&self.outputs[from.max(end) - end..to.max(end) - end]);
        ids
    }
}
