//! What can be wrong with a request body, and with a tokenizer folder.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a request body has no prompt to route by. All of these are the caller's (HTTP 400).
///
/// No variant carries text of the prompt, so that an error may be logged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The body is not UTF-8 from byte `at` on.
    #[error("the body is not valid UTF-8 at byte {at}")]
    NotUtf8 {
        /// Offset of the first byte that is not UTF-8.
        at: usize,
    },
    /// The body is not JSON at byte `at`.
    #[error("the body is not valid JSON at byte {at}: expected {expected}")]
    Syntax {
        /// Offset of the byte that does not belong there; the body's length where it ends too early.
        at: usize,
        /// What would have been right.
        expected: &'static str,
    },
    /// Arrays and objects inside one another beyond [`crate::MAX_NESTING`].
    #[error("the body nests arrays and objects deeper than {} at byte {at}", crate::MAX_NESTING)]
    TooDeep {
        /// Offset of the bracket that is too many.
        at: usize,
    },
    /// A field that this endpoint needs is not there.
    #[error("the field '{field}' is missing: it must be {allowed}")]
    Missing {
        /// The field's name.
        field: &'static str,
        /// What it may be.
        allowed: &'static str,
    },
    /// A field has a value of a type that it cannot have.
    #[error("the field '{field}' has a wrong type: it must be {allowed}")]
    WrongType {
        /// The field's name.
        field: &'static str,
        /// What it may be.
        allowed: &'static str,
    },
    /// A token id of `prompt` is negative or does not fit 32 bits.
    #[error("token {index} of 'prompt' is {value}: a token id is an integer from 0 to 4294967295")]
    TokenId {
        /// Its place in the list, from zero.
        index: usize,
        /// The value as written, cut after 32 bytes.
        value: String,
    },
}

/// Why a tokenizer cannot be loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error("{} is not valid: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tokenizer whose ids cannot be had here as the worker has them.
    #[error("{}: {reason}", path.display())]
    Unsupported {
        /// The file or folder.
        path: PathBuf,
        /// Why, and what to do about it.
        reason: String,
    },
}

impl LoadError {
    /// The file or folder that is wrong.
    pub fn path(&self) -> &Path {
        match self {
            LoadError::Read { path, .. }
            | LoadError::Invalid { path, .. }
            | LoadError::Unsupported { path, .. } => path,
        }
    }
}
