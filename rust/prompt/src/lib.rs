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

mod completion;
mod error;
mod json;
mod openai;
mod prompter;

pub use error::PromptError;
pub use json::MAX_NESTING;
pub use openai::{Body, Endpoint};
pub use prompter::{Data, Prompt, Prompter, Rung};
