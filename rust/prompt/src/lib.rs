//! A request body turned into what its prompt is: exact token ids, or the text that stands for them.
//!
//! ```
//! use warmroute_prompt::{Body, Endpoint, Prompter, Rung};
//!
//! let body = br#"{"model": "m", "messages": [{"role": "user", "content": "Hello"}]}"#;
//! let body = Body::parse(Endpoint::ChatCompletions, body)?;
//! let prompt = Prompter::without_tokenizer().read(&body)?;
//! assert_eq!((body.model(), prompt.rung()), (Some("m"), Rung::Text));
//! # Ok::<(), warmroute_prompt::PromptError>(())
//! ```

mod cache;
mod chat;
mod completion;
mod encode;
mod error;
mod exact;
mod folder;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod json;
mod ladder;
mod media;
mod openai;
mod panics;
mod prompter;
mod python;
mod refused;
mod sample;
mod template;
mod tokenize;
mod work;

pub use cache::{CacheStats, DEFAULT_BYTES as DEFAULT_CACHE_BYTES};
pub use error::{LoadError, PromptError};
pub use exact::{Exact, LoadOptions};
pub use json::MAX_NESTING;
pub use ladder::{Trust, Verdict};
pub use openai::{Body, Endpoint};
pub use panics::veil_panics;
pub use prompter::{Data, Prompt, Prompter, Rung};
pub use refused::Refused;
pub use sample::{CheckStats, Mismatch};
pub use template::ContentFormat;
