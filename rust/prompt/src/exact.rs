//! A model's tokenizer and chat template together: the worker's own tokens, or a refusal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use minijinja::Value;

use crate::cache::{self, Cache, CacheStats, Seen};
use crate::chat::Effort;
use crate::completion::Completion;
use crate::encode::Encoder;
use crate::folder::{Folder, Template};
use crate::json::unescape;
use crate::panics::contained;
use crate::template::{ChatTemplate, ContentFormat};
use crate::work::Work;
use crate::{Body, Endpoint, LoadError, Refused, chat};

/// How a tokenizer is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// A file with the chat template to use in place of the folder's, as vLLM's `--chat-template`.
    pub chat_template: Option<PathBuf>,
    /// The form of messages' content, as vLLM's `--chat-template-content-format`; detected where absent.
    pub content_format: Option<ContentFormat>,
    /// Bytes that may be kept of prompts that were seen, [`crate::DEFAULT_CACHE_BYTES`] where absent; with 0 each is made anew.
    pub prompt_cache_bytes: Option<usize>,
}

/// A tokenizer with its chat templates.
#[derive(Debug)]
pub struct Exact {
    encoder: Encoder,
    templates: Vec<(String, ChatTemplate)>,
    named_tokens: Vec<(String, String)>,
    content_format: Option<ContentFormat>,
    renders_itself: Option<&'static str>,
    cache: Option<Arc<Cache>>,
}

/// The ids of a prompt.
#[derive(Clone, Debug)]
pub(crate) enum Tokens {
    Made(Vec<u32>),
    Seen(Seen),
}

impl Exact {
    /// Loads `path`, a Hugging Face folder or a `tokenizer.json` in one. Takes up to a few seconds.
    ///
    /// # Errors
    /// [`LoadError`], which names the file.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Exact, LoadError> {
        let Folder { path, tokenizer, named_tokens, templates, renders_itself } = Folder::read(path)?;
        let templates = match &options.chat_template {
            _ if renders_itself.is_some() => Vec::new(),
            Some(path) => vec![Template::read(path)?],
            None => templates,
        };
        let compile = |template: Template| {
            let Template { name, source, path } = template;
            let compiled = ChatTemplate::compile(&source);
            compiled.map(|compiled| (name, compiled)).map_err(|reason| LoadError::Invalid { path, reason })
        };
        let templates: Vec<_> = templates.into_iter().map(compile).collect::<Result<_, _>>()?;
        let encoder = Encoder::load(&path, tokenizer.clone())?;
        let cache = match options.prompt_cache_bytes.unwrap_or(cache::DEFAULT_BYTES) {
            0 => None,
            bytes => Cache::new(bytes, &tokenizer, &encoder, templates.iter().map(|(_, template)| template)),
        };
        let content_format = options.content_format;
        Ok(Exact { encoder, templates, named_tokens, content_format, renders_itself, cache })
    }

    /// Whether the fast tokenizer is in use, and not Hugging Face's as its fallback.
    pub fn is_fast(&self) -> bool {
        self.encoder.is_fast()
    }

    /// Why the fast tokenizer is not in use, where it is not.
    pub fn fallback_reason(&self) -> Option<&str> {
        self.encoder.fallback_reason()
    }

    /// The special tokens that have names, such as those of the beginning and the end.
    pub fn special_tokens(&self) -> impl Iterator<Item = &str> {
        self.named_tokens.iter().map(|(_, token)| token.as_str())
    }

    /// The model type or architecture of a model whose chats vLLM renders by its own code: they are not rendered here,
    /// whatever template there is.
    pub fn renders_itself(&self) -> Option<&'static str> {
        self.renders_itself
    }

    /// Whether there is a chat template that counts.
    pub fn has_chat_template(&self) -> bool {
        !self.templates.is_empty()
    }

    /// The ids of the prompt of `body`.
    ///
    /// # Errors
    /// [`Refused`] where they cannot be had exactly: media, a template feature that is not the same here,
    /// an endpoint whose rendering is not known, a body that the worker would refuse.
    pub fn ids(&self, body: &Body<'_>) -> Result<Vec<u32>, Refused> {
        // Without a limit there always are some.
        Ok(match self.tokens(body, usize::MAX)?.ok_or(Refused::Tokenizer)? {
            Tokens::Made(ids) => ids,
            Tokens::Seen(seen) => seen.ids(),
        })
    }

    /// The same without joining what was seen; `None` where more than `limit` bytes that were not seen are to be
    /// read, rendered or encoded. What was done until then is kept.
    pub(crate) fn tokens(&self, body: &Body<'_>, limit: usize) -> Result<Option<Tokens>, Refused> {
        let work = Work::new(&self.encoder, limit);
        if let Some(cache) = &self.cache
            && body.endpoint() == Endpoint::ChatCompletions
        {
            let (number, template) = self.template(body)?;
            let format = self.content_format.unwrap_or(template.content_format());
            let chat = || Ok(cache.chat(body, (number, template), format, &self.named_tokens, &work));
            if let Some(seen) = contained(Refused::Template, chat)? {
                return Ok(Some(Tokens::Seen(seen)));
            }
        }
        if body.endpoint() != Endpoint::Completions && !work.may_render(body) {
            return Ok(None);
        }
        let (text, special) = (self.text(body)?, body.add_special_tokens());
        if let Some(seen) = self.cache.as_ref().and_then(|cache| cache.text(&text, special, &work)) {
            return Ok(Some(Tokens::Seen(seen)));
        }
        let Some(encoder) = work.encoder(text.len()) else { return Ok(None) };
        Ok(Some(Tokens::Made(encoder.encode(&text, special)?)))
    }

    pub(crate) fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// What the cache of prompts did; nothing where there is none.
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.cache.as_ref().map(|cache| cache.stats())
    }

    /// The ids of `text`; `special` adds what the tokenizer puts around a whole input (BOS, EOS).
    ///
    /// # Errors
    /// [`Refused`] where the tokenizer fails on it.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, Refused> {
        self.encoder.encode(text, special)
    }

    /// The ids of `text` as the reference tokenizer has them: slower by far, and what the others must give.
    ///
    /// # Errors
    /// As [`Exact::encode`].
    pub fn reference(&self, text: &str, special: bool) -> Result<Vec<u32>, Refused> {
        self.encoder.reference(text, special)
    }

    /// The text of the prompt of `body`: a rendered chat, or a completion's own.
    ///
    /// # Errors
    /// As [`Exact::ids`].
    pub fn text(&self, body: &Body<'_>) -> Result<String, Refused> {
        match body.endpoint() {
            Endpoint::ChatCompletions | Endpoint::Responses | Endpoint::Messages => self.render(body),
            Endpoint::Completions => match body.completion() {
                _ if body.render_options().truncate_prompt_tokens.is_some() => Err(Refused::Truncated),
                Ok(Some(Completion::Text(raw))) => {
                    let text = unescape(raw).ok_or(Refused::Value)?;
                    Ok(text.into_owned())
                }
                _ => Err(Refused::Prompt),
            },
        }
    }

    /// The ids of a chat with media: the worker's own up to the first, then some that stand for the media and the
    /// texts between them.
    ///
    /// # Errors
    /// [`Refused::Media`] for another endpoint, and as [`Exact::ids`].
    pub(crate) fn media(&self, body: &Body<'_>) -> Result<Vec<u32>, Refused> {
        if body.endpoint() != Endpoint::ChatCompletions || body.continue_final_message() {
            return Err(Refused::Media);
        }
        let (_, template) = self.template(body)?;
        self.ids_with_media(body, template, self.content_format.unwrap_or(template.content_format()))
    }

    /// The template for `body`, and its number.
    fn template(&self, body: &Body<'_>) -> Result<(usize, &ChatTemplate), Refused> {
        let named = |name: &str| self.templates.iter().position(|(known, _)| known == name);
        let has_tools = chat::has_tools(body);
        let with_tools = has_tools.then(|| named("tool_use")).flatten();
        let number = with_tools.or_else(|| named(Template::DEFAULT)).ok_or(Refused::NoTemplate)?;
        Ok((number, &self.templates[number].1))
    }

    fn render(&self, body: &Body<'_>) -> Result<String, Refused> {
        let (_, template) = self.template(body)?;
        let format = self.content_format.unwrap_or(template.content_format());
        let request = match body.endpoint() {
            Endpoint::Responses => chat::responses(body, format)?,
            Endpoint::Messages => {
                let effort = match Effort::of(body)? {
                    Effort::Given(effort) => effort,
                    Effort::Disabled => Some(self.effort_of_none(template, format)?),
                };
                chat::anthropic(body, template, format, effort)?
            }
            _ => chat::read(body, format)?,
        };
        self.fill(template, request)
    }

    pub(crate) fn fill(
        &self,
        template: &ChatTemplate,
        request: chat::Request<'_>,
    ) -> Result<String, Refused> {
        let chat::Rendering { variables, continued } = request.rendering(template)?;
        let tokens =
            self.named_tokens.iter().map(|(name, token)| (name.clone(), Value::from(token.as_str())));
        let text = template.render(Value::from_pairs(tokens.chain(variables)))?;
        continued.map_or(Ok(text.clone()), |continued| continued.cut(&text))
    }

    /// The effort, raw, by which vLLM asks `template` not to think: "low" where "none" is refused or means no less
    /// than another.
    fn effort_of_none(
        &self,
        template: &ChatTemplate,
        format: ContentFormat,
    ) -> Result<&'static str, Refused> {
        let trial = |effort: &str| {
            let messages = r#"[{"role": "user", "content": "Hi"}]"#;
            let body = format!(r#"{{"messages": {messages}, "reasoning_effort": {effort}}}"#);
            let body =
                Body::parse(Endpoint::ChatCompletions, body.as_bytes()).map_err(|_| Refused::Option)?;
            match self.fill(template, chat::read(&body, format)?) {
                Ok(text) => Ok(Some(text)),
                Err(Refused::Raised) => Ok(None),
                Err(other) => Err(other),
            }
        };
        let (none, low) = (r#""none""#, r#""low""#);
        let Some(text) = trial(none)? else { return Ok(low) };
        for effort in [low, r#""medium""#, r#""high""#, r#""xhigh""#, r#""max""#] {
            if trial(effort)?.as_ref() == Some(&text) {
                return Ok(low);
            }
        }
        Ok(none)
    }
}
