//! The rung between tokens made here and text: a worker is asked for the tokens of a prompt.
//!
//! It costs a worker the encoding of the prompt once more, so that it is for what cannot be had here, of a length
//! that is worth it, a few at a time, within a time of its own; whoever asks the same waits for the one answer, and
//! an answer is kept. Whatever fails, the request goes on with its text.

mod abilities;
mod answer;
mod ask;
mod cache;
mod flights;

use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use warmroute_core::options::{Field, Value};
use warmroute_prompt::{Body, Endpoint, Prompt, Refused, Rung};

use crate::config::ProxyConfig;
use crate::shard::Shard;
use crate::stats::Asked;
use abilities::Abilities;
use cache::{Cache, Keys, Said};
use flights::{Flights, Place, landed};

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

/// What all threads share of it.
#[derive(Debug)]
pub(crate) struct WorkerTokens {
    keys: Keys,
    cache: Mutex<Cache>,
    flights: Flights,
    abilities: Mutex<Abilities>,
    /// Questions that are under way or wait, at most twice as many as are under way: who comes last must not wait for
    /// nothing.
    places: Semaphore,
    turns: Semaphore,
}

impl WorkerTokens {
    pub(crate) fn new(config: &ProxyConfig) -> WorkerTokens {
        let turns = config.worker_tokenize_concurrency as usize;
        WorkerTokens {
            keys: Keys::default(),
            cache: Mutex::new(Cache::new(
                usize::try_from(config.worker_tokenize_bytes).unwrap_or(usize::MAX),
            )),
            flights: Flights::default(),
            abilities: Mutex::default(),
            places: Semaphore::new(2 * turns),
            turns: Semaphore::new(turns),
        }
    }

    /// What a worker said of `body` before, without asking.
    pub(crate) fn known(&self, endpoint: Endpoint, body: &[u8]) -> Option<Bytes> {
        self.cache.lock().get(self.keys.of(endpoint, body), Instant::now()).flatten()
    }

    /// Bytes that answers take.
    pub(crate) fn bytes(&self) -> usize {
        self.cache.lock().bytes()
    }
}

/// Whether a worker is worth asking, where `prompt` is what could be had here of a body of `length` bytes.
pub(crate) fn is_wanted(config: &ProxyConfig, prompt: &Prompt<'_>, length: usize) -> bool {
    let Some(refused) = prompt.refused() else { return false };
    let wanted = match config.worker_tokenize {
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

/// The ids of the prompt of `body`, packed, as a worker has them; nothing where none says them in time.
pub(crate) async fn of_worker(
    shard: &Shard,
    endpoint: Endpoint,
    head: &HeaderMap,
    body: &Bytes,
) -> Option<Bytes> {
    let tokens = &shard.shared.tokens;
    let key = tokens.keys.of(endpoint, body);
    let count = |asked: Asked| shard.stats.asked[asked as usize].one();
    loop {
        if let Some(said) = tokens.cache.lock().get(key, Instant::now()) {
            count(Asked::Kept);
            return said;
        }
        match tokens.flights.join(key) {
            Place::Passenger(receiver) => {
                if let Some(said) = landed(receiver).await {
                    count(Asked::Shared);
                    return said;
                }
                // The pilot's client left: somebody else asks.
            }
            Place::Pilot(flight) => {
                let (said, keep) = ask(shard, endpoint, head, body).await;
                if keep {
                    tokens.cache.lock().put(key, said.clone(), Instant::now());
                }
                flight.land(said.clone());
                return said;
            }
        }
    }
}

/// Asks within the time that a question has. Also says whether the answer is worth keeping.
async fn ask(shard: &Shard, endpoint: Endpoint, head: &HeaderMap, body: &Bytes) -> (Said, bool) {
    let question = match Body::parse(endpoint, body) {
        Ok(parsed) => ask::Question::new(endpoint, &parsed, head, body),
        Err(_) => return (None, false),
    };
    let mut asked_url = None;
    let within = shard.config().worker_tokenize_timeout();
    let result = tokio::time::timeout(within, ask::ask(shard, &question, &mut asked_url)).await;
    let ending = result.as_ref().map_or(Asked::Late, |(_, ending)| *ending);
    if let Some(url) = asked_url
        && matches!(ending, Asked::Late | Asked::Failed)
    {
        shard.shared.tokens.abilities.lock().failed(&url, Instant::now());
    }
    shard.stats.asked[ending as usize].one();
    let said = result.ok().and_then(|(said, _)| said);
    (said, matches!(ending, Asked::Answered | Asked::Refused))
}
