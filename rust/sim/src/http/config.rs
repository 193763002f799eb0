//! What a server is made of.

use std::fmt;
use std::io;

use crate::engine::{ConfigError, EngineConfig};

/// What a server is made of.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// The address to listen on.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// The model's name.
    pub model: String,
    /// Names of LoRA adapters, which are served as models of their own.
    pub loras: Vec<String>,
    /// The engine. Its `kv_events` and `output_ids` are set by the server.
    pub engine: EngineConfig,
    /// Simulated seconds in a real one.
    pub speed: f64,
    /// Tokens of a reply that nothing limits.
    pub output_tokens: u32,
    /// Requests that may wait before more are refused with 503; none is no limit.
    pub max_queued_requests: Option<usize>,
    /// The longest request body, in bytes.
    pub max_body_bytes: usize,
    /// Where KV events are published, by someone who takes them from the server; none is no events.
    pub kv_events: Option<KvEventSource>,
}

/// What `/kv_event_sources` says about the publisher.
#[derive(Clone, Debug)]
pub struct KvEventSource {
    /// The endpoint of the PUB socket.
    pub endpoint: String,
    /// The endpoint of the ROUTER socket for replays.
    pub replay_endpoint: Option<String>,
    /// The topic.
    pub topic: String,
    /// Batches kept for replays.
    pub buffer_steps: usize,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig {
            host: "127.0.0.1".to_owned(),
            port: 0,
            model: "sim".to_owned(),
            loras: Vec::new(),
            engine: EngineConfig::default(),
            speed: 1.0,
            output_tokens: 120,
            max_queued_requests: None,
            max_body_bytes: 64 << 20,
            kv_events: None,
        }
    }
}

impl SimConfig {
    /// Refuses what no server can be.
    ///
    /// # Errors
    /// [`ConfigError`] names the option, its value and the range it must be in.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.model.is_empty() {
            return Err(ConfigError::new("model", "\"\"", "a name"));
        }
        if self.loras.iter().any(|lora| lora.is_empty() || *lora == self.model) {
            return Err(ConfigError::new(
                "loras",
                format!("{:?}", self.loras),
                "names other than the model's",
            ));
        }
        // Above this a step of the model is shorter than the resolution of the timer.
        if !(0.001..=1000.0).contains(&self.speed) {
            return Err(ConfigError::new("speed", self.speed.to_string(), "0.001 to 1000"));
        }
        if self.output_tokens == 0 {
            return Err(ConfigError::new("output_tokens", "0", "at least 1"));
        }
        if self.kv_events.as_ref().is_some_and(|source| source.buffer_steps == 0) {
            return Err(ConfigError::new("buffer_steps", "0", "at least 1"));
        }
        self.engine.check()
    }
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// An option has a value that it cannot have.
    Config(ConfigError),
    /// The address cannot be listened on.
    Bind {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// No thread or event loop could be had.
    Runtime(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(error) => error.fmt(f),
            StartError::Bind { address, source } => write!(f, "cannot listen on {address}: {source}"),
            StartError::Runtime(source) => write!(f, "cannot start the server's thread: {source}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> StartError {
        StartError::Config(error)
    }
}
