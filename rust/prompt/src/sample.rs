//! Prompts that are made a second time, by the slow and obvious way, to see whether the fast one is right.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Body, Data, Endpoint, Exact, Prompt, Refused};

/// A longer body is not checked: the reference takes half a second for a megabyte.
const MAX_BODY_BYTES: usize = 4 << 20;
/// After a check the thread rests this many times as long as it took: one percent of one core.
const REST: u32 = 99;
/// Models whose first mismatch is kept.
const MAX_MODELS: usize = 16;

/// Letters of a model's name that are kept: it is the client's, and goes to a log.
const MAX_NAME: usize = 128;

/// What checks found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckStats {
    /// Prompts that were made a second time and compared.
    pub checks: u64,
    /// Those that were not the same.
    pub mismatches: u64,
    /// Prompts that were due and not taken, because one was being checked or the thread rested after it.
    pub skipped: u64,
    /// Checks that came to no end, because what they run panicked.
    pub failed: u64,
    /// The first mismatch of each model.
    pub first: Vec<Mismatch>,
}

/// Where two encodings of a prompt part. It has no text of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The model of the request; empty where it named none.
    pub model: Box<str>,
    /// Index of the first token that differs.
    pub position: usize,
    /// The token that was routed by; none where the prompt ended before.
    pub used: Option<u32>,
    /// The reference's; none where its prompt ended before, or was refused.
    pub expected: Option<u32>,
}

/// Takes one in so many prompts, and checks it on a thread of its own.
#[derive(Debug)]
pub(crate) struct Sampler {
    every: u64,
    seen: AtomicU64,
    jobs: SyncSender<Job>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    busy: AtomicBool,
    /// Until when the thread rests, in nanoseconds since `origin`.
    rests_until: AtomicU64,
    origin: Instant,
    stats: Mutex<CheckStats>,
}

#[derive(Debug)]
struct Job {
    exact: Arc<Exact>,
    endpoint: Endpoint,
    model: Box<str>,
    body: Vec<u8>,
    used: Vec<u8>,
}

impl Sampler {
    /// One that takes the first of `every` prompts.
    ///
    /// # Errors
    /// Where the thread cannot be started.
    pub(crate) fn start(every: u32) -> std::io::Result<Sampler> {
        Sampler::with_rest(every, REST)
    }

    fn with_rest(every: u32, rest: u32) -> std::io::Result<Sampler> {
        let shared = Arc::new(Shared {
            busy: AtomicBool::new(false),
            rests_until: AtomicU64::new(0),
            origin: Instant::now(),
            stats: Mutex::default(),
        });
        let (jobs, queue) = sync_channel(1);
        let thread = Arc::clone(&shared);
        // It ends when the sampler and with it the sender is dropped.
        thread::Builder::new().name("token-check".to_owned()).spawn(move || thread.work(&queue, rest))?;
        Ok(Sampler { every: u64::from(every.max(1)), seen: AtomicU64::new(0), jobs, shared })
    }

    /// Counts `prompt`, which `exact` made of `body`, and hands a copy to the thread where it is due.
    pub(crate) fn offer(&self, exact: &Arc<Exact>, body: &Body<'_>, prompt: &Prompt<'_>) {
        if !self.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.every) {
            return;
        }
        if body.raw().len() > MAX_BODY_BYTES || !self.shared.take_turn() {
            self.shared.stats().skipped += 1;
            return;
        }
        let Data::Ids(used) = prompt.data() else { return self.shared.give_back(Duration::ZERO) };
        let job = Job {
            exact: Arc::clone(exact),
            endpoint: body.endpoint(),
            model: body.model().unwrap_or_default().chars().take(MAX_NAME).collect(),
            body: body.raw().to_vec(),
            used: used.clone(),
        };
        if self.jobs.try_send(job).is_err() {
            self.shared.give_back(Duration::ZERO);
        }
    }

    pub(crate) fn stats(&self) -> CheckStats {
        self.shared.stats().clone()
    }
}

impl Shared {
    fn work(&self, queue: &Receiver<Job>, rest: u32) {
        for job in queue {
            let began = Instant::now();
            self.check(|| job.differs());
            self.give_back(began.elapsed().saturating_mul(rest));
        }
    }

    /// Counts what `differs` finds. Its panic is counted, too, and the thread lives on.
    fn check(&self, differs: impl FnOnce() -> Option<Mismatch>) {
        let differs = catch_unwind(AssertUnwindSafe(differs));
        let mut stats = self.stats();
        match differs {
            Err(_) => stats.failed += 1,
            Ok(None) => stats.checks += 1,
            Ok(Some(mismatch)) => {
                stats.checks += 1;
                stats.mismatches += 1;
                let known = stats.first.iter().any(|first| first.model == mismatch.model);
                if !known && stats.first.len() < MAX_MODELS {
                    stats.first.push(mismatch);
                }
            }
        }
    }

    /// Whether the thread is free and rested; then it is the caller's.
    fn take_turn(&self) -> bool {
        let rested = self.now() >= self.rests_until.load(Ordering::Relaxed);
        rested && self.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn give_back(&self, rest: Duration) {
        let until = self.now().saturating_add(u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX));
        self.rests_until.store(until, Ordering::Relaxed);
        self.busy.store(false, Ordering::Release);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn stats(&self) -> std::sync::MutexGuard<'_, CheckStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    /// Where the reference's ids are others than those that were used.
    fn differs(&self) -> Option<Mismatch> {
        let used: Vec<u32> = self
            .used
            .chunks_exact(4)
            .filter_map(|id| Some(u32::from_le_bytes(id.try_into().ok()?)))
            .collect();
        let expected = self.expected().unwrap_or_default();
        let position = (0..used.len().max(expected.len())).find(|&at| used.get(at) != expected.get(at))?;
        let model = self.model.clone();
        let (used, expected) = (used.get(position).copied(), expected.get(position).copied());
        Some(Mismatch { model, position, used, expected })
    }

    /// Without what was kept of other prompts, and by the reference.
    fn expected(&self) -> Result<Vec<u32>, Refused> {
        let body = Body::parse(self.endpoint, &self.body).map_err(|_| Refused::Value)?;
        self.exact.reference(&self.exact.text(&body)?, body.add_special_tokens())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;
    use std::sync::LazyLock;

    use super::*;
    use crate::{LoadOptions, Prompter};

    static EXACT: LazyLock<Arc<Exact>> = LazyLock::new(|| {
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/warmroute/data/tokenizer");
        Arc::new(Exact::load(&package, &LoadOptions::default()).unwrap())
    });

    /// Offers `sent` as what was used for a chat that says `said`, and waits until it is checked or not taken.
    fn offer(sampler: &Sampler, said: &str, sent: &str, model: &str) -> CheckStats {
        let json = |text: &str| {
            format!(r#"{{"model": "{model}", "messages": [{{"role": "user", "content": "{text}"}}]}}"#)
        };
        let (said, sent) = (json(said), json(sent));
        let before = sampler.stats();
        let sent = Body::parse(Endpoint::ChatCompletions, sent.as_bytes()).unwrap();
        let prompter = Prompter::new(Some(Arc::clone(&EXACT)), Default::default());
        let prompt = prompter.read(&sent).unwrap();
        let said = Body::parse(Endpoint::ChatCompletions, said.as_bytes()).unwrap();
        sampler.offer(&EXACT, &said, &prompt);
        while sampler.shared.busy.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let after = sampler.stats();
        assert!(after.checks + after.skipped <= before.checks + before.skipped + 1);
        after
    }

    #[test]
    fn one_in_so_many_is_checked() {
        let sampler = Sampler::with_rest(3, 0).unwrap();
        for _ in 0..7 {
            offer(&sampler, "hi", "hi", "m");
        }
        assert_eq!(sampler.stats(), CheckStats { checks: 3, ..CheckStats::default() });
    }

    #[test]
    fn a_mismatch_is_counted_and_the_first_of_a_model_is_kept() {
        let sampler = Sampler::with_rest(1, 0).unwrap();
        let stats = offer(&sampler, "one two", "one two three", "m");
        let again = offer(&sampler, "a", "b", "m");
        assert_eq!((again.checks, again.mismatches, &again.first), (2, 2, &stats.first));
        let other = offer(&sampler, "a", "b", "n");
        assert_eq!((other.mismatches, other.first.len()), (3, 2));
        let first = &other.first[0];
        let ids = |text: &str| EXACT.encode(text, false).unwrap();
        let (said, sent) =
            (ids("<|im_start|>user\none two<|im_end|>"), ids("<|im_start|>user\none two three"));
        assert_eq!(&*first.model, "m");
        assert_eq!((first.expected, first.used), (Some(said[first.position]), Some(sent[first.position])));
        assert_eq!(said[..first.position], sent[..first.position]);
    }

    #[test]
    fn a_check_that_panics_is_counted_and_the_next_one_is_made() {
        let sampler = Sampler::with_rest(1, 0).unwrap();
        sampler.shared.check(|| panic!("on purpose"));
        assert_eq!(sampler.stats(), CheckStats { failed: 1, ..CheckStats::default() });
        assert_eq!(
            offer(&sampler, "a", "a", "m"),
            CheckStats { failed: 1, checks: 1, ..CheckStats::default() }
        );
    }

    #[test]
    fn models_are_bounded() {
        let sampler = Sampler::with_rest(1, 0).unwrap();
        for model in 0..MAX_MODELS + 3 {
            offer(&sampler, "a", "b", &model.to_string());
        }
        let stats = sampler.stats();
        assert_eq!((stats.mismatches as usize, stats.first.len()), (MAX_MODELS + 3, MAX_MODELS));
    }

    #[test]
    fn the_thread_rests_and_what_is_due_meanwhile_is_counted() {
        let sampler = Sampler::with_rest(1, u32::MAX).unwrap();
        offer(&sampler, "a", "a", "m");
        let stats = offer(&sampler, "a", "b", "m");
        assert_eq!(stats, CheckStats { checks: 1, skipped: 1, ..CheckStats::default() });
    }

    #[test]
    fn a_body_that_is_too_long_is_skipped() {
        let sampler = Sampler::with_rest(1, 0).unwrap();
        let stats = offer(&sampler, &"a".repeat(MAX_BODY_BYTES), "a", "m");
        assert_eq!(stats, CheckStats { skipped: 1, ..CheckStats::default() });
    }
}
