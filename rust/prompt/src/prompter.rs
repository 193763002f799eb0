//! From a body to what a router hashes.

use std::path::Path;

use smallvec::SmallVec;
use warmroute_core::block::{BYTES_PER_TOKEN, BlockHash, BlockHasher, Namespace, Units};

use crate::completion::Completion;
use crate::{Body, Endpoint, Exact, LoadError, LoadOptions, PromptError};

/// How a prompt was had, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// The client sent token ids.
    ClientIds,
    /// Rendered and encoded here, exactly as the worker does.
    Local,
    /// The request's text, as it is written in the body: affinity is approximate.
    Text,
    /// There is nothing to compare: the request is routed by load.
    LoadOnly,
}

impl Rung {
    /// Every rung, best first.
    pub const ALL: [Rung; 4] = [Rung::ClientIds, Rung::Local, Rung::Text, Rung::LoadOnly];

    /// The name in metrics, explanations and response headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Rung::ClientIds => "client_ids",
            Rung::Local => "local",
            Rung::Text => "text",
            Rung::LoadOnly => "load_only",
        }
    }
}

/// What a prompt consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// Token ids, packed as little-endian `u32`.
    Ids(Vec<u8>),
    /// Slices of the body in the order in which a chat template uses them.
    Text(SmallVec<[&'a [u8]; 3]>),
}

/// A prompt, ready to be hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt<'a> {
    data: Data<'a>,
    rung: Rung,
}

impl<'a> Prompt<'a> {
    /// The ids or the text.
    pub fn data(&self) -> &Data<'a> {
        &self.data
    }

    /// How it was had.
    pub fn rung(&self) -> Rung {
        self.rung
    }

    /// What its blocks are measured in.
    pub fn units(&self) -> Units {
        match self.data {
            Data::Ids(_) => Units::Tokens,
            Data::Text(_) => Units::Bytes,
        }
    }

    /// Its length in tokens: exact for ids, a quarter of the bytes for text.
    pub fn tokens(&self) -> u32 {
        let tokens = match &self.data {
            Data::Ids(ids) => ids.len() / 4,
            Data::Text(spans) => spans.iter().map(|span| span.len()).sum::<usize>() / BYTES_PER_TOKEN,
        };
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Appends the hashes of its full blocks to `out`. `space.units` is replaced by [`Prompt::units`].
    pub fn hash_into(&self, hasher: &BlockHasher, space: &Namespace<'_>, out: &mut Vec<BlockHash>) {
        let space = Namespace { units: self.units(), ..*space };
        match &self.data {
            Data::Ids(ids) => hasher.hash_ids(&space, ids, out),
            Data::Text(spans) => hasher.hash_text(&space, spans, out),
        }
    }

    fn ids(ids: Vec<u8>, rung: Rung) -> Prompt<'a> {
        Prompt { data: Data::Ids(ids), rung }
    }

    fn text(spans: impl IntoIterator<Item = Option<&'a str>>) -> Prompt<'a> {
        let spans: SmallVec<_> = spans.into_iter().flatten().map(|span| inside(span).as_bytes()).collect();
        let rung = if spans.is_empty() { Rung::LoadOnly } else { Rung::Text };
        Prompt { data: Data::Text(spans), rung }
    }
}

/// What stands between the quotes or brackets of `raw`, so that a longer array begins like a shorter one.
fn inside(raw: &str) -> &str {
    raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default()
}

/// Turns bodies into prompts, with a model's tokenizer and chat template or without.
#[derive(Debug, Default)]
pub struct Prompter {
    exact: Option<Exact>,
}

impl Prompter {
    /// One that knows no tokenizer: prompts are text, unless the client sends token ids.
    pub fn without_tokenizer() -> Prompter {
        Prompter::default()
    }

    /// One with the tokenizer of `path`, a Hugging Face folder or a `tokenizer.json` in one.
    ///
    /// Takes up to a few seconds, and never belongs on an async runtime's thread.
    ///
    /// # Errors
    /// [`LoadError`] where a file cannot be read or is not valid. A folder without a chat template loads,
    /// and its chats are text.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Prompter, LoadError> {
        Exact::load(path, options).map(|exact| Prompter { exact: Some(exact) })
    }

    /// Whether there is a tokenizer, and [`Prompter::read`] can give exact tokens.
    pub fn has_tokenizer(&self) -> bool {
        self.exact.is_some()
    }

    /// The tokenizer and template, where there are any.
    pub fn exact(&self) -> Option<&Exact> {
        self.exact.as_ref()
    }

    /// The prompt of `body`: exact tokens where they can be had, else its text.
    ///
    /// # Errors
    /// Where the field that holds the prompt is missing or has a wrong type; the worker would refuse the
    /// request, too.
    pub fn read<'a>(&self, body: &Body<'a>) -> Result<Prompt<'a>, PromptError> {
        let text = match body.endpoint() {
            Endpoint::Completions => match completion(body)? {
                None => return Ok(Prompt::text([])),
                Some(Completion::Ids(ids)) => return Ok(Prompt::ids(ids, Rung::ClientIds)),
                Some(Completion::Text(raw)) => Prompt::text([Some(raw)]),
            },
            Endpoint::ChatCompletions => Prompt::text([body.tools(), Some(body.messages()?)]),
            Endpoint::Messages => Prompt::text([body.tools(), body.system(), Some(body.messages()?)]),
            Endpoint::Responses => Prompt::text([body.tools(), body.instructions(), Some(body.input()?)]),
        };
        Ok(match self.exact.as_ref().map(|exact| exact.ids(body)) {
            Some(Ok(ids)) => Prompt::ids(pack(&ids), Rung::Local),
            Some(Err(_)) | None => text,
        })
    }
}

/// `None` where embeddings stand in the prompt's place, which nothing here can compare.
pub(crate) fn completion<'a>(body: &Body<'a>) -> Result<Option<Completion<'a>>, PromptError> {
    body.prompt()?.map(Completion::read).transpose()
}

fn pack(ids: &[u32]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(ids.len() * 4);
    packed.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    packed
}
