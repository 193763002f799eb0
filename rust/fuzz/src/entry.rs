//! What the fuzz targets and the ordinary tests of hostile input call: any bytes give tokens, text or a typed error.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use warmroute_core::block::{BlockHash, BlockHasher, Namespace, Units};
use warmroute_prompt::{Body, Data, Endpoint, LoadOptions, Prompt, PromptError, Prompter, Rung};

/// Every kind of request that has a prompt.
pub const ENDPOINTS: [Endpoint; 4] =
    [Endpoint::ChatCompletions, Endpoint::Completions, Endpoint::Responses, Endpoint::Messages];

/// Tokens of a block, as vLLM's own default.
const BLOCK_TOKENS: u32 = 16;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The package's tokenizer with its own template and with three more: string content with namespaces, a list
/// of parts with nested loops, and one that walks through all that it is given.
pub static PROMPTERS: LazyLock<Vec<Prompter>> = LazyLock::new(|| load(1 << 20));
/// The same without a cache of what was seen.
static UNCACHED: LazyLock<Vec<Prompter>> = LazyLock::new(|| load(0));
/// The same with a cache that evicts all the time.
static EVICTING: LazyLock<Vec<Prompter>> = LazyLock::new(|| load(16 << 10));

fn load(prompt_cache_bytes: usize) -> Vec<Prompter> {
    let folder = root().join("python/warmroute/data/tokenizer");
    let templates = [
        None,
        Some("tests/support/templates/developer.jinja"),
        Some("tests/support/templates/parts.jinja"),
        Some("rust/fuzz/templates/walk.jinja"),
    ];
    let load = |template: Option<&str>| {
        let chat_template = template.map(|template| root().join(template));
        let options = LoadOptions {
            chat_template,
            prompt_cache_bytes: Some(prompt_cache_bytes),
            ..LoadOptions::default()
        };
        Prompter::load(&folder, &options).expect("the repository's tokenizer and templates load")
    };
    templates.into_iter().map(load).collect()
}

/// Loads what [`cached`] needs, which takes longer than any input may.
pub fn load_all() {
    for prompters in [&PROMPTERS, &UNCACHED, &EVICTING] {
        LazyLock::force(prompters);
    }
}

/// Parses `bytes` as every kind of request, asks for everything, and reads the prompt without a tokenizer.
pub fn body(bytes: &[u8]) {
    for endpoint in ENDPOINTS {
        match Body::parse(endpoint, bytes) {
            Ok(body) => {
                ask(&body, bytes);
                read(&Prompter::without_tokenizer(), &body, bytes);
            }
            Err(error) => typed(&error, bytes),
        }
    }
}

/// Reads `bytes` as every kind of request with the template that `choice` names.
pub fn render(choice: u8, bytes: &[u8]) {
    let prompter = &PROMPTERS[usize::from(choice) % PROMPTERS.len()];
    for endpoint in ENDPOINTS {
        let Ok(body) = Body::parse(endpoint, bytes) else { continue };
        let Some(prompt) = read(prompter, &body, bytes) else { continue };
        let exact = prompter.exact().expect("there is a tokenizer");
        if let (Rung::Local, Data::Ids(packed)) = (prompt.rung(), prompt.data()) {
            let text = exact.text(&body).expect("what has tokens has a text");
            let ids = exact.encode(&text, body.add_special_tokens()).expect("what has tokens is encoded");
            assert_eq!(*packed, ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>());
        }
    }
}

/// Stands between bodies of one input.
pub const SEPARATOR: u8 = 0xff;

/// Reads bodies one after the other with a cache, with one that evicts, and without: ids, text and hashes are
/// the same.
pub fn cached(choice: u8, bytes: &[u8]) {
    let place = usize::from(choice) % PROMPTERS.len();
    for bytes in bytes.split(|byte| *byte == SEPARATOR) {
        for endpoint in ENDPOINTS {
            let Ok(body) = Body::parse(endpoint, bytes) else {
                assert!(PROMPTERS[place].parse(endpoint, bytes).is_err());
                continue;
            };
            let Some(expected) = read(&UNCACHED[place], &body, bytes) else { continue };
            for prompter in [&PROMPTERS[place], &EVICTING[place]] {
                let body = prompter
                    .parse(endpoint, bytes)
                    .expect("what is parsed without a cache is parsed with one");
                let prompt = prompter.read(&body).expect("what is read without a cache is read with one");
                assert_eq!((prompt.rung(), prompt.data()), (expected.rung(), expected.data()));
                assert_eq!(hashes(&prompt), hashes(&expected));
            }
        }
    }
}

/// Every accessor; what it gives is a part of the body.
fn ask(body: &Body<'_>, bytes: &[u8]) {
    let within = |raw: &str| assert!(raw.len() <= bytes.len());
    [body.system(), body.tools(), body.instructions(), body.chat_template_kwargs()]
        .into_iter()
        .chain([body.messages().ok(), body.input().ok(), body.prompt().ok().flatten()])
        .flatten()
        .for_each(within);
    [body.model().map(Into::into), body.cache_salt(), body.user()]
        .into_iter()
        .flatten()
        .for_each(|text| within(&text));
    let _flags = (body.stream(), body.add_generation_prompt(), body.continue_final_message());
    let _other = (body.required_model().is_ok(), body.max_tokens(), body.add_special_tokens());
}

fn read<'a>(prompter: &Prompter, body: &Body<'a>, bytes: &[u8]) -> Option<Prompt<'a>> {
    let prompt = prompter.read(body).map_err(|error| typed(&error, bytes)).ok()?;
    assert_eq!(prompter.read(body).as_ref(), Ok(&prompt), "the same body has the same prompt");
    assert_eq!(hashes(&prompt).len(), (prompt.tokens() / BLOCK_TOKENS) as usize);
    match prompt.data() {
        Data::Ids(ids) => assert!(ids.len() % 4 == 0 && prompt.units() == Units::Tokens),
        Data::Text(spans) => assert!(spans.iter().map(|span| span.len()).sum::<usize>() <= bytes.len()),
    }
    Some(prompt)
}

fn hashes(prompt: &Prompt<'_>) -> Vec<BlockHash> {
    let mut blocks = Vec::new();
    prompt.hash_into(&BlockHasher::new(BLOCK_TOKENS, 0), &Namespace::default(), &mut blocks);
    blocks
}

/// An error names a place in the body and is short, whatever the body is.
fn typed(error: &PromptError, bytes: &[u8]) {
    if let PromptError::NotUtf8 { at } | PromptError::Syntax { at, .. } | PromptError::TooDeep { at } = error
    {
        assert!(*at <= bytes.len());
    }
    assert!(error.to_string().len() < 256);
}
