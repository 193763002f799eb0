//! Text to token ids, as the worker's tokenizer does it.

mod probes;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::Value;

use crate::panics::contained;
use crate::{LoadError, Refused};
use probes::Probes;

/// The one letter outside ASCII that is an `s` to an expression which ignores case, so that `'ſ` is the end of
/// a contraction: Hugging Face's tokenizer takes it for one everywhere, fastokens only in some expressions.
const CONTESTED: &str = "\u{17f}";

/// A loaded tokenizer.
pub(crate) struct Encoder {
    /// fastokens: about fifty times as fast as the reference. None where it is not known to agree.
    fast: Result<Box<fastokens::Tokenizer>, String>,
    /// Whether texts with [`CONTESTED`] are left to the reference.
    guarded: bool,
    /// Hugging Face's own, which says what is right.
    reference: Box<tokenizers::Tokenizer>,
}

impl Encoder {
    /// Loads `definition`, the content of a `tokenizer.json` read from `path`.
    ///
    /// fastokens is taken where it loads and agrees with the reference on [`Probes`]. Encoding them also fills
    /// its caches, so that the first request does not pay for it.
    ///
    /// # Errors
    /// [`LoadError::Invalid`] where the reference refuses the definition, [`LoadError::Unsupported`] where it
    /// does not give the same ids each time.
    pub(crate) fn load(path: &Path, definition: Value) -> Result<Encoder, LoadError> {
        let invalid = |reason: String| LoadError::Invalid { path: path.to_owned(), reason };
        let text = serde_json::to_vec(&definition).map_err(|error| invalid(error.to_string()))?;
        let reference =
            tokenizers::Tokenizer::from_bytes(text).map_err(|error| invalid(error.to_string()))?;
        if definition["model"]["dropout"].as_f64().is_some_and(|dropout| dropout > 0.0) {
            let reason = "its model has a dropout, so that no two encodings are alike".to_owned();
            return Err(LoadError::Unsupported { path: path.to_owned(), reason });
        }
        let probes = Probes::new(added_tokens(&definition));
        let fast = load_fast(definition);
        let mut encoder = Encoder { fast, guarded: false, reference: Box::new(reference) };
        let mut differs = encoder.fast.is_ok().then(|| encoder.disagreement(&probes)).flatten();
        if differs.is_some() {
            encoder.guarded = true;
            differs = encoder.disagreement(&probes);
        }
        if let Some(reason) = differs {
            encoder.fast = Err(reason);
        }
        Ok(encoder)
    }

    /// The ids of `text`; `special` adds what the tokenizer puts around a whole input (BOS, EOS).
    ///
    /// # Errors
    /// [`Refused`] where the tokenizer fails, which those of language models do not.
    pub(crate) fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, Refused> {
        let Ok(fast) = &self.fast else { return self.reference(text, special) };
        if self.guarded && text.contains(CONTESTED) {
            return self.reference(text, special);
        }
        contained(Refused::Tokenizer, || {
            fast.encode_with_special_tokens(text, special).map_err(|_| Refused::Tokenizer)
        })
    }

    /// The ids of `text` as the reference has them, however they are encoded otherwise.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub(crate) fn reference(&self, text: &str, special: bool) -> Result<Vec<u32>, Refused> {
        let ids = |encoding: tokenizers::Encoding| encoding.get_ids().to_vec();
        contained(Refused::Tokenizer, || {
            self.reference.encode_fast(text, special).map(ids).map_err(|_| Refused::Tokenizer)
        })
    }

    /// Whether the fast tokenizer is in use.
    pub(crate) fn is_fast(&self) -> bool {
        self.fast.is_ok()
    }

    /// Why the fast tokenizer is not in use, where it is not.
    pub(crate) fn fallback_reason(&self) -> Option<&str> {
        self.fast.as_ref().err().map(String::as_str)
    }

    /// The first probe on which the two differ, in words.
    fn disagreement(&self, probes: &Probes) -> Option<String> {
        let differs = |text: &str, special| self.encode(text, special) != self.reference(text, special);
        probes
            .clone()
            .flat_map(|text| [(text.clone(), false), (text, true)])
            .find(|(text, special)| differs(text, *special))
            .map(|(text, _)| format!("fastokens encodes {:?} otherwise", shortened(&text)))
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_fast() { "Encoder(fastokens)" } else { "Encoder(tokenizers)" })
    }
}

fn load_fast(definition: Value) -> Result<Box<fastokens::Tokenizer>, String> {
    match catch_unwind(AssertUnwindSafe(|| fastokens::Tokenizer::from_json(definition))) {
        Ok(Ok(fast)) => Ok(Box::new(fast)),
        Ok(Err(error)) => Err(format!("fastokens refuses it: {error}")),
        Err(_) => Err("fastokens refuses it".to_owned()),
    }
}

fn added_tokens(definition: &Value) -> Vec<String> {
    let tokens = definition["added_tokens"].as_array().into_iter().flatten();
    tokens.filter_map(|token| Some(token["content"].as_str()?.to_owned())).collect()
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
