//! From a body to what a router hashes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use warmroute_core::block::{BYTES_PER_TOKEN, BlockHash, BlockHasher, Namespace, Units};

use crate::cache::Seen;
use crate::completion::Completion;
use crate::exact::Tokens;
use crate::ladder::{Ladder, Trust};
use crate::sample::{CheckStats, Sampler};
use crate::{Body, CacheStats, Endpoint, Exact, LoadError, LoadOptions, PromptError, Refused};

/// How a prompt was had, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// The client sent token ids.
    ClientIds,
    /// Rendered and encoded here, exactly as the worker does.
    Local,
    /// The same up to the first image, sound or film of the prompt; from there on prompts with the same ones match.
    Media,
    /// A worker was asked for them.
    Worker,
    /// The request's text, as it is written in the body: affinity is approximate.
    Text,
    /// There is nothing to compare: the request is routed by load.
    LoadOnly,
}

impl Rung {
    /// Every rung, best first.
    pub const ALL: [Rung; 6] =
        [Rung::ClientIds, Rung::Local, Rung::Media, Rung::Worker, Rung::Text, Rung::LoadOnly];

    /// The name in metrics, explanations and response headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Rung::ClientIds => "client_ids",
            Rung::Local => "local",
            Rung::Media => "media",
            Rung::Worker => "worker",
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
#[derive(Clone, Debug)]
pub struct Prompt<'a> {
    source: Source<'a>,
    rung: Rung,
    refused: Option<Refused>,
}

/// Where the ids or the text are.
#[derive(Clone, Debug)]
enum Source<'a> {
    Data(Data<'a>),
    /// In segments that are joined when they are asked for.
    Seen(Seen, OnceLock<Data<'a>>),
}

impl PartialEq for Prompt<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.data(), self.rung, self.refused) == (other.data(), other.rung, other.refused)
    }
}

impl Eq for Prompt<'_> {}

impl<'a> Prompt<'a> {
    /// The ids or the text.
    pub fn data(&self) -> &Data<'a> {
        match &self.source {
            Source::Data(data) => data,
            Source::Seen(seen, joined) => joined.get_or_init(|| Data::Ids(seen.joined())),
        }
    }

    /// How it was had.
    pub fn rung(&self) -> Rung {
        self.rung
    }

    /// Why its tokens could not be made here; nothing where they were, or where there was nothing to make.
    pub fn refused(&self) -> Option<Refused> {
        self.refused
    }

    /// One whose `ids`, packed as little-endian `u32`, a worker gave, because here they were refused.
    pub fn of_worker(ids: Vec<u8>, refused: Refused) -> Prompt<'a> {
        Prompt { refused: Some(refused), ..Prompt::ids(ids, Rung::Worker) }
    }

    /// What its blocks are measured in.
    pub fn units(&self) -> Units {
        match self.source {
            Source::Data(Data::Ids(_)) | Source::Seen(..) => Units::Tokens,
            Source::Data(Data::Text(_)) => Units::Bytes,
        }
    }

    /// Its length in tokens: exact for ids, a quarter of the bytes for text.
    pub fn tokens(&self) -> u32 {
        let tokens = match &self.source {
            Source::Seen(seen, _) => seen.len(),
            Source::Data(Data::Ids(ids)) => ids.len() / 4,
            Source::Data(Data::Text(spans)) => {
                spans.iter().map(|span| span.len()).sum::<usize>() / BYTES_PER_TOKEN
            }
        };
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Appends the hashes of its full blocks to `out`. `space.units` is replaced by [`Prompt::units`].
    pub fn hash_into(&self, hasher: &BlockHasher, space: &Namespace<'_>, out: &mut Vec<BlockHash>) {
        let space = Namespace { units: self.units(), ..*space };
        match &self.source {
            Source::Seen(seen, _) => seen.hash_into(hasher, &space, out),
            Source::Data(Data::Ids(ids)) => hasher.hash_ids(&space, ids, out),
            Source::Data(Data::Text(spans)) => hasher.hash_text(&space, spans, out),
        }
    }

    fn ids(ids: Vec<u8>, rung: Rung) -> Prompt<'a> {
        Prompt { source: Source::Data(Data::Ids(ids)), rung, refused: None }
    }

    fn local(tokens: Tokens) -> Prompt<'a> {
        let source = match tokens {
            Tokens::Made(ids) => Source::Data(Data::Ids(pack(&ids))),
            Tokens::Seen(seen) => Source::Seen(seen, OnceLock::new()),
        };
        Prompt { source, rung: Rung::Local, refused: None }
    }

    fn text(spans: impl IntoIterator<Item = Option<&'a [u8]>>) -> Prompt<'a> {
        let spans: SmallVec<_> = spans.into_iter().flatten().map(inside).collect();
        let rung = if spans.is_empty() { Rung::LoadOnly } else { Rung::Text };
        Prompt { source: Source::Data(Data::Text(spans)), rung, refused: None }
    }
}

/// What stands between the quotes or brackets of `raw`, so that a longer array begins like a shorter one.
fn inside(raw: &[u8]) -> &[u8] {
    raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default()
}

/// Tokenizers that are asked what they have seen before a body is looked at.
const MAX_TRIED: usize = 4;

/// Turns bodies into prompts, with the tokenizers and chat templates of models or without.
#[derive(Debug, Default)]
pub struct Prompter {
    ladder: Ladder,
    sampler: Option<Sampler>,
}

impl Prompter {
    /// One that knows no tokenizer: prompts are text, unless the client sends token ids.
    pub fn without_tokenizer() -> Prompter {
        Prompter::default()
    }

    /// One with the tokenizer of `path`, a Hugging Face folder or a `tokenizer.json` in one, for every model.
    ///
    /// Takes up to a few seconds, and never belongs on an async runtime's thread.
    ///
    /// # Errors
    /// [`LoadError`] where a file cannot be read or is not valid. A folder without a chat template loads,
    /// and its chats are text.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Prompter, LoadError> {
        Exact::load(path, options).map(|exact| Prompter::new(Some(Arc::new(exact)), HashMap::new()))
    }

    /// One with the tokenizers of `named` for single models, and that of `default` for every other one.
    ///
    /// `options` are those of the default. As [`Prompter::load`], it takes its time.
    ///
    /// # Errors
    /// As [`Prompter::load`].
    pub fn load_all(
        default: Option<&Path>,
        named: &[(String, PathBuf)],
        options: &LoadOptions,
    ) -> Result<Prompter, LoadError> {
        let default = default.map(|path| Exact::load(path, options).map(Arc::new)).transpose()?;
        let own = LoadOptions { chat_template: None, content_format: None, ..options.clone() };
        let mut loaded: HashMap<&Path, Arc<Exact>> = HashMap::new();
        let mut tokenizers = HashMap::new();
        for (model, path) in named {
            let exact = match loaded.get(path.as_path()) {
                Some(exact) => Arc::clone(exact),
                None => Arc::new(Exact::load(path, &own)?),
            };
            loaded.insert(path, Arc::clone(&exact));
            tokenizers.insert(model.as_str().into(), exact);
        }
        Ok(Prompter::new(default, tokenizers))
    }

    /// One with tokenizers of single models, and one for every other model where there is a default.
    pub fn new(default: Option<Arc<Exact>>, named: HashMap<Box<str>, Arc<Exact>>) -> Prompter {
        Prompter { ladder: Ladder::new(default, named), sampler: None }
    }

    /// The same, and one in `every` prompts whose tokens are made here is made again by the reference, on a thread
    /// of its own, and compared; 0 checks none.
    ///
    /// # Errors
    /// Where the thread cannot be started.
    pub fn with_checks(self, every: u32) -> std::io::Result<Prompter> {
        let sampler = if every == 0 { None } else { Some(Sampler::start(every)?) };
        Ok(Prompter { sampler, ..self })
    }

    /// What these checks found.
    pub fn check_stats(&self) -> CheckStats {
        self.sampler.as_ref().map(Sampler::stats).unwrap_or_default()
    }

    /// Whether there is a tokenizer, and [`Prompter::read`] can give exact tokens.
    pub fn has_tokenizer(&self) -> bool {
        self.ladder.all().next().is_some()
    }

    /// The tokenizer and template for models that have none of their own, where there are any.
    pub fn exact(&self) -> Option<&Exact> {
        self.ladder.shared()
    }

    /// The tokenizer and template of `model`, whether they are to be trusted or not.
    pub fn exact_for(&self, model: Option<&str>) -> Option<&Arc<Exact>> {
        self.ladder.exact(model)
    }

    /// Whether `model` has a tokenizer of its own.
    pub fn is_named(&self, model: &str) -> bool {
        self.ladder.is_named(model)
    }

    /// What is known of the tokens of `model`, or of those of requests that name none.
    pub fn trust(&self, model: Option<&str>) -> Trust {
        self.ladder.trust(model)
    }

    /// Why tokens of the texts and of the chats of `model` cannot be made here, whatever the request.
    pub fn standing(&self, model: Option<&str>) -> (Option<Refused>, Option<Refused>) {
        self.ladder.standing(model)
    }

    /// Says what is known of the tokens of `model`: a refused one is read as text from then on.
    pub fn set_trust(&self, model: &str, trust: Trust) {
        self.ladder.set_trust(model, trust);
    }

    /// Forgets what is known of the tokens of `model`.
    pub fn forget(&self, model: &str) {
        self.ladder.forget(model);
    }

    /// The models of which something is known, by name.
    pub fn models(&self) -> Vec<(Box<str>, Trust)> {
        self.ladder.models()
    }

    /// What the caches of all tokenizers did.
    pub fn cache_stats(&self) -> CacheStats {
        self.ladder
            .all()
            .filter_map(|exact| exact.cache_stats())
            .fold(CacheStats::default(), CacheStats::plus)
    }

    /// Finds the fields of `body`, as [`Body::parse`] does, but passes over messages that were seen.
    ///
    /// # Errors
    /// As [`Body::parse`].
    pub fn parse<'a>(&self, endpoint: Endpoint, body: &'a [u8]) -> Result<Body<'a>, PromptError> {
        if endpoint != Endpoint::ChatCompletions {
            return Body::parse(endpoint, body);
        }
        // Which model it is for may stand behind the messages.
        let caches = || self.ladder.all().filter_map(|exact| exact.cache()).take(MAX_TRIED);
        Body::parse_passing(endpoint, body, &|ahead| caches().find_map(|cache| cache.pass(ahead)))
    }

    /// The prompt of `body`: exact tokens where they can be had, else its text.
    ///
    /// # Errors
    /// Where the field that holds the prompt is missing or has a wrong type; the worker would refuse the
    /// request, too.
    pub fn read<'a>(&self, body: &Body<'a>) -> Result<Prompt<'a>, PromptError> {
        // Without a limit there always is one.
        Ok(self.read_within(body, usize::MAX)?.unwrap_or(Prompt::text([])))
    }

    /// The same for a thread that may not take its time: nothing where more than `limit` bytes that were not seen
    /// before are to be read or encoded, or a chat of more than that is to be rendered in full. What was read and
    /// encoded until then is kept for [`Prompter::read`].
    ///
    /// # Errors
    /// As [`Prompter::read`].
    pub fn read_within<'a>(&self, body: &Body<'a>, limit: usize) -> Result<Option<Prompt<'a>>, PromptError> {
        let text = match text(body)? {
            prompt if prompt.rung == Rung::Text => prompt,
            prompt => return Ok(Some(prompt)),
        };
        let made = self.ladder.trusted(body).and_then(|exact| Ok((exact, exact.tokens(body, limit)?)));
        Ok(Some(match made {
            Ok((_, None)) => return Ok(None),
            Ok((exact, Some(tokens))) => {
                let prompt = Prompt::local(tokens);
                if let Some(sampler) = &self.sampler {
                    sampler.offer(exact, body, &prompt);
                }
                prompt
            }
            Err(Refused::Media) => {
                self.media(body).unwrap_or(Prompt { refused: Some(Refused::Media), ..text })
            }
            Err(refused) => Prompt { refused: Some(refused), ..text },
        }))
    }

    fn media<'a>(&self, body: &Body<'a>) -> Option<Prompt<'a>> {
        let ids = self.ladder.trusted(body).and_then(|exact| exact.media(body)).ok()?;
        Some(Prompt { refused: Some(Refused::Media), ..Prompt::ids(pack(&ids), Rung::Media) })
    }

    /// The text of `body`, whose tokens cannot be made here for the reason `refused`.
    ///
    /// # Errors
    /// As [`Prompter::read`].
    pub fn read_text<'a>(&self, body: &Body<'a>, refused: Refused) -> Result<Prompt<'a>, PromptError> {
        Ok(Prompt { refused: Some(refused), ..text(body)? })
    }
}

/// What stands in `body`: the client's ids, or its text.
fn text<'a>(body: &Body<'a>) -> Result<Prompt<'a>, PromptError> {
    let bytes = |raw: Option<&'a str>| raw.map(str::as_bytes);
    Ok(match body.endpoint() {
        Endpoint::Completions => match body.completion()? {
            None => Prompt::text([]),
            Some(Completion::Ids(ids)) => Prompt::ids(ids, Rung::ClientIds),
            Some(Completion::Text(raw)) => Prompt::text([bytes(Some(raw))]),
        },
        Endpoint::ChatCompletions => Prompt::text([bytes(body.tools()), Some(body.message_bytes()?)]),
        Endpoint::Messages => {
            Prompt::text([bytes(body.tools()), bytes(body.system()), Some(body.message_bytes()?)])
        }
        Endpoint::Responses => {
            Prompt::text([bytes(body.tools()), bytes(body.instructions()), bytes(Some(body.input()?))])
        }
    })
}

fn pack(ids: &[u32]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(ids.len() * 4);
    packed.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    packed
}
