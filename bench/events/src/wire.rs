//! Batches of events as vLLM writes them.

use warmroute_core::block::{BlockHash, BlockHasher, Namespace};

/// Tokens of a block.
pub const BLOCK: usize = 16;
/// Ids are below this power of two, and as often of one length as of another: words are used by rank.
const VOCABULARY_BITS: u64 = 17;

/// How an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Fields by place: vLLM to 0.23.
    Array,
    /// Fields by name: vLLM from 0.24 on.
    Map,
}

impl Layout {
    pub const ALL: [Layout; 2] = [Layout::Array, Layout::Map];

    pub fn name(self) -> &'static str {
        match self {
            Layout::Array => "array",
            Layout::Map => "map",
        }
    }
}

/// A repeatable source of numbers.
#[derive(Clone, Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        (u128::from(self.next()) * u128::from(end)).wrapping_shr(64) as u64
    }
}

fn mixed(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A prompt: blocks of a system prompt, then its own. Equal places of equal parts have equal blocks.
#[derive(Clone, Copy, Debug)]
pub struct Prompt {
    pub system: u64,
    pub shared: u32,
    pub own: u64,
    pub blocks: u32,
}

impl Prompt {
    /// The engine's name of a block.
    pub fn name(&self, index: u32) -> u64 {
        let part = if index < self.shared { self.system } else { self.own };
        mixed(mixed(part) ^ u64::from(index))
    }

    fn token(&self, index: u32, place: u32) -> u32 {
        let random = mixed(self.name(index) ^ u64::from(place));
        let rank_bits = (random >> 40) % VOCABULARY_BITS + 1;
        (random as u32 | 1 << 31) >> (32 - rank_bits)
    }

    /// The router's names of all blocks.
    pub fn hashes(&self, hasher: &BlockHasher) -> Vec<BlockHash> {
        let ids: Vec<u8> = (0..self.blocks)
            .flat_map(|index| (0..BLOCK as u32).map(move |place| (index, place)))
            .flat_map(|(index, place)| self.token(index, place).to_le_bytes())
            .collect();
        let mut hashes = Vec::new();
        hasher.hash_ids(&Namespace::default(), &ids, &mut hashes);
        hashes
    }
}

/// One batch under construction.
#[derive(Debug)]
pub struct Batch {
    layout: Layout,
    out: Vec<u8>,
    events: u16,
}

/// Where the number of events stands: after the batch's own head, the time and the array's marker.
const EVENTS_AT: usize = 11;

impl Batch {
    /// A batch made at `made`, in seconds.
    pub fn new(layout: Layout, made: f64) -> Batch {
        let mut out = vec![0x93, 0xcb];
        out.extend(made.to_be_bytes());
        out.extend([0xdc, 0, 0]);
        Batch { layout, out, events: 0 }
    }

    /// `BlockStored` for the blocks `from..to`.
    pub fn stored(&mut self, prompt: &Prompt, from: u32, to: u32) -> &mut Batch {
        let blocks = (to - from) as usize;
        self.begin("BlockStored", 11, 10);
        self.field("block_hashes");
        self.array(blocks);
        (from..to).for_each(|index| self.unsigned(prompt.name(index)));
        self.field("parent_block_hash");
        match from {
            0 => self.out.push(0xc0),
            from => self.unsigned(prompt.name(from - 1)),
        }
        self.field("token_ids");
        self.array(blocks * BLOCK);
        for index in from..to {
            (0..BLOCK as u32).for_each(|place| self.unsigned(u64::from(prompt.token(index, place))));
        }
        self.field("block_size");
        self.unsigned(BLOCK as u64);
        self.field("lora_id");
        self.out.push(0xc0);
        self.field("medium");
        self.text("GPU");
        self.field("lora_name");
        self.out.push(0xc0);
        self.field("extra_keys");
        self.array(blocks);
        self.out.extend(std::iter::repeat_n(0xc0, blocks));
        self.field("group_idx");
        self.out.push(0);
        if self.layout == Layout::Map {
            self.field("kv_cache_spec_kind");
            self.text("full_attention");
        }
        self
    }

    /// `BlockRemoved` for one block.
    pub fn removed(&mut self, name: u64) -> &mut Batch {
        self.begin("BlockRemoved", 4, 4);
        self.field("block_hashes");
        self.array(1);
        self.unsigned(name);
        self.field("medium");
        self.text("GPU");
        self.field("group_idx");
        self.out.push(0);
        self
    }

    /// `AllBlocksCleared`.
    pub fn cleared(&mut self) -> &mut Batch {
        self.begin("AllBlocksCleared", 1, 1);
        self
    }

    /// Events that are in it.
    pub fn events(&self) -> u16 {
        self.events
    }

    /// The payload; the batch is empty then, and was made at `made`.
    pub fn finish(&mut self, made: f64) -> Vec<u8> {
        self.out.push(0);
        let at = EVENTS_AT;
        self.out[at..at + 2].copy_from_slice(&self.events.to_be_bytes());
        std::mem::replace(self, Batch::new(self.layout, made)).out
    }

    fn begin(&mut self, tag: &str, named: u8, placed: u8) {
        self.events += 1;
        match self.layout {
            Layout::Map => {
                self.out.push(0x80 | named);
                self.text("type");
            }
            Layout::Array => self.out.push(0x90 | placed),
        }
        self.text(tag);
    }

    fn field(&mut self, name: &str) {
        if self.layout == Layout::Map {
            self.text(name);
        }
    }

    fn array(&mut self, length: usize) {
        match length {
            0..16 => self.out.push(0x90 | length as u8),
            _ => {
                self.out.push(0xdc);
                self.out.extend((length as u16).to_be_bytes());
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push(0xa0 | text.len() as u8);
        self.out.extend(text.as_bytes());
    }

    fn unsigned(&mut self, value: u64) {
        match value {
            0..0x80 => self.out.push(value as u8),
            0x80..0x100 => self.out.extend([0xcc, value as u8]),
            0x100..0x1_0000 => {
                self.out.push(0xcd);
                self.out.extend((value as u16).to_be_bytes());
            }
            0x1_0000..0x1_0000_0000 => {
                self.out.push(0xce);
                self.out.extend((value as u32).to_be_bytes());
            }
            _ => {
                self.out.push(0xcf);
                self.out.extend(value.to_be_bytes());
            }
        }
    }
}
