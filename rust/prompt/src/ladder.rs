//! Which tokenizer a model has, and whether what it makes is to be trusted.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::{Body, Endpoint, Exact, Refused};

/// What is known of how tokens made here compare with a worker's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// No worker was found to agree or to disagree.
    #[default]
    Unverified,
    /// A worker's tokens were the same.
    Verified,
    /// A worker's tokens were others.
    Refused,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Verdict; 3] = [Verdict::Unverified, Verdict::Verified, Verdict::Refused];

    /// The name in metrics, explanations and replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Unverified => "unverified",
            Verdict::Verified => "verified",
            Verdict::Refused => "refused",
        }
    }
}

/// What is known of one model's tokens. Where only the chat template differs, texts are still to be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Of plain texts: the tokenizer.
    pub text: Verdict,
    /// Of chats: the tokenizer and the chat template.
    pub chat: Verdict,
}

impl Trust {
    /// Why texts are not to be encoded here.
    fn text(self) -> Option<Refused> {
        (self.text == Verdict::Refused).then_some(Refused::TokensDiffer)
    }

    /// Why chats are not to be encoded here.
    fn chat(self) -> Option<Refused> {
        let template = (self.chat == Verdict::Refused).then_some(Refused::TemplateDiffers);
        self.text().or(template)
    }

    /// The less trusted of both, for each.
    fn worse(self, other: Trust) -> Trust {
        Trust { text: self.text.max(other.text), chat: self.chat.max(other.chat) }
    }
}

/// Tokenizers by model, and what is known of them.
#[derive(Debug, Default)]
pub(crate) struct Ladder {
    default: Option<Arc<Exact>>,
    named: HashMap<Box<str>, Arc<Exact>>,
    trust: RwLock<Trusted>,
}

/// What is known, by model.
#[derive(Debug, Default)]
struct Trusted {
    models: HashMap<Box<str>, Trust>,
    /// Of a model that is not among them, and of requests that name none: the worst of those that share its tokenizer.
    others: Trust,
}

impl Ladder {
    /// `named` has the tokenizers of single models; every other model has the default one.
    pub(crate) fn new(default: Option<Arc<Exact>>, named: HashMap<Box<str>, Arc<Exact>>) -> Ladder {
        Ladder { default, named, trust: RwLock::default() }
    }

    pub(crate) fn shared(&self) -> Option<&Exact> {
        self.default.as_deref()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Exact>> {
        self.default.iter().chain(self.named.values())
    }

    /// The tokenizer of `model`, whether it is to be trusted or not.
    pub(crate) fn exact(&self, model: Option<&str>) -> Option<&Arc<Exact>> {
        model.and_then(|model| self.named.get(model)).or(self.default.as_ref())
    }

    /// Whether `model` has a tokenizer that no other model has.
    pub(crate) fn is_named(&self, model: &str) -> bool {
        self.named.contains_key(model)
    }

    /// The tokenizer for `body`, where its model has one and that is not refused.
    pub(crate) fn trusted(&self, body: &Body<'_>) -> Result<&Arc<Exact>, Refused> {
        let exact = self.exact(body.model()).ok_or(Refused::NoTokenizer)?;
        let trust = self.trust(body.model());
        match if body.endpoint() == Endpoint::Completions { trust.text() } else { trust.chat() } {
            None => Ok(exact),
            Some(refused) => Err(refused),
        }
    }

    /// Why tokens of texts and of chats cannot be made here, whatever the request.
    pub(crate) fn standing(&self, model: Option<&str>) -> (Option<Refused>, Option<Refused>) {
        let Some(exact) = self.exact(model) else {
            return (Some(Refused::NoTokenizer), Some(Refused::NoTokenizer));
        };
        let trust = self.trust(model);
        let no_template = (!exact.has_chat_template()).then_some(Refused::NoTemplate);
        (trust.text(), trust.chat().or(no_template))
    }

    pub(crate) fn trust(&self, model: Option<&str>) -> Trust {
        let trusted = self.trust.read();
        model.and_then(|model| trusted.models.get(model)).copied().unwrap_or(trusted.others)
    }

    pub(crate) fn set_trust(&self, model: &str, trust: Trust) {
        self.change(|models| {
            models.insert(model.into(), trust);
        });
    }

    pub(crate) fn forget(&self, model: &str) {
        self.change(|models| {
            models.remove(model);
        });
    }

    pub(crate) fn models(&self) -> Vec<(Box<str>, Trust)> {
        let trusted = self.trust.read();
        let mut models: Vec<_> = trusted.models.iter().map(|(name, trust)| (name.clone(), *trust)).collect();
        models.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        models
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<Box<str>, Trust>)) {
        let mut trusted = self.trust.write();
        change(&mut trusted.models);
        let sharing = trusted.models.iter().filter(|(name, _)| !self.named.contains_key(*name));
        trusted.others = sharing.map(|(_, trust)| *trust).reduce(Trust::worse).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Trust = Trust { text: Verdict::Refused, chat: Verdict::Refused };
    const VERIFIED: Trust = Trust { text: Verdict::Verified, chat: Verdict::Verified };

    #[test]
    fn a_model_that_is_not_known_is_trusted_as_the_worst_of_those_with_its_tokenizer() {
        let ladder = Ladder::default();
        assert_eq!(ladder.trust(Some("a")), Trust::default());
        ladder.set_trust("a", VERIFIED);
        assert_eq!((ladder.trust(None), ladder.trust(Some("adapter"))), (VERIFIED, VERIFIED));
        ladder.set_trust("b", REFUSED);
        assert_eq!((ladder.trust(Some("a")), ladder.trust(None)), (VERIFIED, REFUSED));
        ladder.forget("b");
        assert_eq!(ladder.trust(Some("b")), VERIFIED);
        assert_eq!(ladder.models(), [("a".into(), VERIFIED)]);
    }
}
