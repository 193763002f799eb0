//! For which prompts a worker is asked.

use warmroute_core::options::{Field, Value};
use warmroute_prompt::{Prompt, Refused, Rung};

/// A shorter body is not asked for: its prefill costs no more than the question.
const LEAST_BODY: usize = 4 << 10;
/// A longer one is not, either: encoding it would hold up the worker's other requests for half a second and more.
const MOST_BODY: usize = 1 << 20;

/// When workers are asked for tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerTokenize {
    /// For a model that has a tokenizer here, where that cannot be used.
    #[default]
    Auto,
    /// For a model without a tokenizer here, too.
    Always,
    /// Never.
    Off,
}

impl WorkerTokenize {
    const ALL: [(&'static str, WorkerTokenize); 3] =
        [("auto", WorkerTokenize::Auto), ("always", WorkerTokenize::Always), ("off", WorkerTokenize::Off)];
    /// The names of the choices, the default first.
    pub const NAMES: [&'static str; 3] = ["auto", "always", "off"];
}

impl Field for WorkerTokenize {
    fn to_value(&self) -> Value {
        let name = WorkerTokenize::ALL.iter().find(|(_, each)| each == self).map_or("auto", |(name, _)| name);
        Value::Choice(name.to_owned())
    }

    fn from_value(value: Value) -> Option<WorkerTokenize> {
        let Value::Choice(wanted) = value else { return None };
        WorkerTokenize::ALL.iter().find(|(name, _)| *name == wanted).map(|(_, each)| *each)
    }
}

/// Whether a worker is worth asking, where `prompt` is what could be had here of a body of `length` bytes.
pub(crate) fn is_wanted(when: WorkerTokenize, prompt: &Prompt<'_>, length: usize) -> bool {
    let Some(refused) = prompt.refused() else { return false };
    let wanted = match when {
        WorkerTokenize::Off => false,
        WorkerTokenize::Auto => refused != Refused::NoTokenizer,
        WorkerTokenize::Always => true,
    };
    wanted
        && prompt.rung() == Rung::Text
        && is_answered(refused)
        && (LEAST_BODY..=MOST_BODY).contains(&length)
}

/// Whether a worker is likely to have the tokens: it has none for what it refuses itself, and for media it would do
/// half of the work of the request.
fn is_answered(refused: Refused) -> bool {
    matches!(
        refused,
        Refused::NoTokenizer
            | Refused::TokensDiffer
            | Refused::TemplateDiffers
            | Refused::NoTemplate
            | Refused::OwnTemplate
            | Refused::Truncated
            | Refused::Item
            | Refused::Clock
            | Refused::Template
            | Refused::Value
            | Refused::Tokenizer
    )
}
