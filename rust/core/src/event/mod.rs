//! What an engine says of its KV cache: a batch of events as MessagePack, untrusted, to typed events.
//!
//! Every layout that vLLM and SGLang write is read: events as arrays (vLLM to 0.23) and as maps, the batch as
//! an array and as a map, hashes as unsigned and signed integers and as bytes; fields that are not known are
//! passed over. One event that cannot be read does not lose the others of its batch.

mod decode;
mod fields;
mod msgpack;

pub use decode::decode;

use std::fmt;

/// A block's name in the engine, as the engine computes it: opaque, and only meaningful for one worker.
///
/// Of a digest given as bytes these are the last eight, big-endian: what vLLM itself gives as an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineHash(pub u64);

/// Where a block lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// In the engine's own memory: a hit costs nothing.
    #[default]
    Device,
    /// In the host's memory or on a disk: a hit costs the way back.
    Lower,
}

/// The events of one batch, in the order in which they happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch<'a> {
    /// When it was made, in seconds by the worker's clock.
    pub made: f64,
    /// The data-parallel rank that they are of.
    pub rank: Option<u32>,
    /// What happened.
    pub events: Vec<Event<'a>>,
    /// Events that could not be read, and why.
    pub faults: Vec<EventFault>,
}

/// One change of an engine's KV cache.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// Blocks can be hit from here on.
    Stored(Stored<'a>),
    /// Blocks were evicted.
    Removed(Removed),
    /// Nothing is cached any more.
    Cleared,
}

/// A run of blocks that were stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored<'a> {
    /// The blocks' names, first to last.
    pub hashes: Vec<EngineHash>,
    /// The block before the first; `None` where the run starts a prompt.
    pub parent: Option<EngineHash>,
    /// The blocks' token ids as little-endian `u32`, packed.
    pub tokens: Vec<u8>,
    /// Tokens in a block; zero where blocks are named and their tokens are not said.
    pub block_size: u32,
    /// The LoRA adapter's name.
    pub lora: Option<&'a str>,
    /// The adapter's number, all that vLLM gives before 0.15.
    pub lora_id: Option<u64>,
    /// The salt of the prompt that starts with the first block.
    pub salt: Option<&'a str>,
    /// What else than token ids tells blocks apart (media, embeddings): index of the block, hash of its keys.
    pub keys: Vec<(u32, u64)>,
    /// Where the blocks lie.
    pub tier: Tier,
    /// Whether the place is reached by other workers as well.
    pub remote: bool,
    /// The engine's KV cache group.
    pub group: Option<u32>,
    /// Whether hits need every block of a prefix, which is what an overlap means; `None` where it is not said.
    pub full_attention: Option<bool>,
}

impl Stored<'_> {
    /// Whether the blocks are of an adapter that has only a number: it cannot be told from another worker's, nor
    /// from the base model.
    pub fn is_nameless(&self) -> bool {
        self.lora.is_none() && self.lora_id.is_some()
    }
}

/// Blocks that were evicted from a tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The blocks' names.
    pub hashes: Vec<EngineHash>,
    /// Where they lay.
    pub tier: Tier,
    /// Whether the place is reached by other workers as well.
    pub remote: bool,
    /// The engine's KV cache group.
    pub group: Option<u32>,
}

/// Why a batch or an event of one could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventFault {
    /// The bytes end early, or are not MessagePack.
    Broken,
    /// Neither a batch nor an event looks like this.
    Shape,
    /// An event of an unknown type.
    UnknownType,
    /// A field that must be there is not.
    Missing(&'static str),
    /// A field has a value that it cannot have.
    Value(&'static str),
}

impl fmt::Display for EventFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventFault::Broken => f.write_str("the bytes end early or are not MessagePack"),
            EventFault::Shape => f.write_str("a batch or an event has an unknown shape"),
            EventFault::UnknownType => f.write_str("an event has an unknown type"),
            EventFault::Missing(field) => write!(f, "{field} is missing"),
            EventFault::Value(field) => write!(f, "{field} has a value that it cannot have"),
        }
    }
}

impl std::error::Error for EventFault {}
