//! What an engine is made of.

use std::fmt;
use std::sync::Arc;

use super::StepTime;

/// What an engine is made of; [`EngineConfig::check`] says whether it can be one.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Tokens in one KV block.
    pub block_size: u32,
    /// KV blocks, of which one is vLLM's null block and holds nothing.
    pub num_blocks: u32,
    /// Tokens one step computes at most, prefill and decode together.
    pub max_num_batched_tokens: u32,
    /// Requests that run at the same time at most.
    pub max_num_seqs: u32,
    /// Tokens of a prompt and its output together at most.
    pub max_model_len: u32,
    /// Whether a request is admitted only when its whole prompt has room (vLLM's
    /// `scheduler_reserve_full_isl`), not its first chunk alone.
    pub reserve_full_prompt: bool,
    /// How long a step takes.
    pub step_time: StepTime,
    /// Whether KV events are collected.
    pub kv_events: bool,
    /// Separates the block hashes of engines that must not agree on them.
    pub hash_seed: u64,
    /// The token ids that outputs are drawn from.
    pub output_ids: Arc<[u32]>,
}

impl Default for EngineConfig {
    /// An A100 with 80 GB and an 8B model: room for 420,000 tokens.
    fn default() -> EngineConfig {
        EngineConfig {
            block_size: 16,
            num_blocks: 420_000 / 16 + 1,
            max_num_batched_tokens: 2048,
            max_num_seqs: 256,
            max_model_len: 131_072,
            reserve_full_prompt: true,
            step_time: StepTime::A100_8B,
            kv_events: false,
            hash_seed: 0,
            output_ids: (1..=256).collect(),
        }
    }
}

impl EngineConfig {
    /// Sets the block count so that `tokens` tokens fit, the null block not counted.
    #[must_use]
    pub fn with_kv_tokens(mut self, tokens: u32) -> EngineConfig {
        self.num_blocks = (tokens / self.block_size.max(1)).saturating_add(1);
        self
    }

    /// Blocks that requests can use.
    pub fn usable_blocks(&self) -> u32 {
        self.num_blocks.saturating_sub(1)
    }

    /// Refuses what no engine can be.
    ///
    /// # Errors
    /// [`ConfigError`] names the option, its value and the range it must be in.
    pub fn check(&self) -> Result<(), ConfigError> {
        // A billion tokens of KV is far above any machine and keeps every product of these within u64.
        in_range("block_size", self.block_size, 1, 1 << 16)?;
        in_range("num_blocks", self.num_blocks, 2, 1 << 30)?;
        in_range("max_num_seqs", self.max_num_seqs, 1, 1 << 20)?;
        // Every running request needs one token of each step's budget, as in vLLM.
        in_range("max_num_batched_tokens", self.max_num_batched_tokens, self.max_num_seqs, 1 << 30)?;
        // A request that fills the window must fit, or it would be preempted for ever.
        let room = u64::from(self.usable_blocks()) * u64::from(self.block_size);
        let most = u32::try_from(room.min(1 << 30)).unwrap_or(u32::MAX);
        in_range("max_model_len", self.max_model_len, 2, most)?;
        if self.output_ids.is_empty() {
            return Err(ConfigError::new("output_ids", "[]", "at least one token id"));
        }
        self.step_time.check()
    }
}

fn in_range(option: &'static str, value: u32, least: u32, most: u32) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(option, value.to_string(), format!("{least} to {most}")))
}

/// An option has a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The option's name.
    pub option: &'static str,
    /// The value it was given.
    pub value: String,
    /// The values it can have.
    pub allowed: String,
}

impl ConfigError {
    /// `option` was given `value`, and only `allowed` is possible.
    pub fn new(option: &'static str, value: impl Into<String>, allowed: impl Into<String>) -> ConfigError {
        ConfigError { option, value: value.into(), allowed: allowed.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, and must be {}", self.option, self.value, self.allowed)
    }
}

impl std::error::Error for ConfigError {}
