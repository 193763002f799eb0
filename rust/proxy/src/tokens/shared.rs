//! What all threads know of the answers that workers gave.

use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use warmroute_prompt::Endpoint;

use super::abilities::Abilities;
use super::cache::{Cache, Keys};
use super::flights::Flights;
use crate::config::ProxyConfig;

/// What all threads share of the questions and their answers.
#[derive(Debug)]
pub(crate) struct WorkerTokens {
    pub(super) keys: Keys,
    pub(super) cache: Mutex<Cache>,
    pub(super) flights: Flights,
    pub(super) abilities: Mutex<Abilities>,
    /// Questions that are under way or wait, at most twice as many as are under way: who comes last must not wait for
    /// nothing.
    pub(super) places: Semaphore,
    pub(super) turns: Semaphore,
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
