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
pub(crate) mod shared;
pub(crate) mod when;

use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use warmroute_prompt::{Body, Endpoint};

use crate::shard::Shard;
use crate::stats::Asked;
use cache::Said;
use flights::{Place, landed};

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
