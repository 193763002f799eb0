//! The options of the proxy, each defined here and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use warmroute_core::admit::RetryBudget;
use warmroute_core::options::Allowed::{Bool, Choice, Float, Int};

use crate::tokens::when::WorkerTokenize;

/// A day, the longest of the times below.
const DAY_MS: u64 = 86_400_000;

warmroute_core::options! {
    /// The options of the HTTP proxy.
    pub struct ProxyConfig {
        /// Threads that serve requests; 0 takes one for each core, up to 4, and one where the system is not Linux.
        threads: u32 = 0, Int(0, 256), "";
        /// Client connections at once; more wait in the kernel's queue until one is closed.
        max_connections: u32 = 16_384, Int(1, 1_000_000), "";
        /// The longest request body; a longer one is refused with 413.
        body_limit_bytes: u64 = 64 << 20, Int(1 << 10, 1 << 32), "bytes";
        /// Request bodies that are held at once, in each thread; beyond it requests are refused with 503.
        held_bodies_bytes: u64 = 1 << 30, Int(1 << 20, 1 << 40), "bytes";
        /// How long a client may take for the head of a request, from its first byte on.
        head_timeout_ms: u64 = 10_000, Int(10, DAY_MS), "ms";
        /// The longest pause of a client inside a request body.
        body_timeout_ms: u64 = 60_000, Int(10, DAY_MS), "ms";
        /// How long a client may take nothing of a reply that waits for it.
        send_timeout_ms: u64 = 60_000, Int(10, DAY_MS), "ms";
        /// How long a client's connection may lie idle between requests.
        idle_timeout_ms: u64 = 90_000, Int(10, DAY_MS), "ms";
        /// How long a connection to a worker may take.
        connect_timeout_ms: u64 = 3_000, Int(1, DAY_MS), "ms";
        /// How long a worker may take to begin its reply; 0 sets no bound. A reply that is not streamed begins at its
        /// end.
        request_timeout_ms: u64 = 1_800_000, Int(0, DAY_MS), "ms";
        /// How long a worker may send nothing of a reply that it has begun; 0 sets no bound. vLLM begins a stream
        /// before it is queued, so this covers the queue and the prefill.
        silence_timeout_ms: u64 = 600_000, Int(0, DAY_MS), "ms";
        /// Idle connections that each thread keeps to one worker.
        idle_per_worker: u32 = 256, Int(0, 65_536), "";
        /// How long an idle connection to a worker is kept. vLLM closes its own after 5 s.
        worker_idle_ms: u64 = 4_000, Int(0, DAY_MS), "ms";
        /// Whether a request that failed before its first byte may go to another worker, once.
        retries: bool = true, Bool, "";
        /// Retries that are allowed as a share of the requests of the last 10 s, over HTTP and gRPC together; those
        /// for want of a connection are free.
        retry_share: f64 = 0.1, Float(0.0, 1.0), "";
        /// Retries a second that are allowed in any case.
        retry_floor: f64 = 1.0, Float(0.0, 10_000.0), "1/s";
        /// Threads of each serving thread that encode long prompts, where there is a tokenizer.
        encode_threads: u32 = 2, Int(1, 64), "";
        /// Whether a worker is asked for the tokens of a prompt of 4 KiB to 1 MiB that cannot be had here: `auto` for
        /// a model that has a tokenizer here, `always` for one without, too. It costs the worker the encoding of the
        /// prompt once more; otherwise the prompt is matched as text.
        worker_tokenize: WorkerTokenize = WorkerTokenize::Auto, Choice(&WorkerTokenize::NAMES), "";
        /// How long such a question may take; then the prompt is matched as text.
        worker_tokenize_timeout_ms: u64 = 500, Int(1, DAY_MS), "ms";
        /// Such questions that are under way at once. As many more wait, within that time; beyond it prompts are
        /// matched as text.
        worker_tokenize_concurrency: u32 = 8, Int(1, 4096), "";
        /// Memory for the answers that are kept.
        worker_tokenize_bytes: u64 = 64 << 20, Int(0, 1 << 40), "bytes";
        /// Threads of each serving thread for what is not forwarded: metrics, health, the list of models.
        control_threads: u32 = 2, Int(1, 64), "";
        /// Such requests that may wait at each serving thread; more are refused with 503.
        control_queue: u32 = 64, Int(1, 65_536), "";
    }
}

impl ProxyConfig {
    /// Threads to start.
    pub fn thread_count(&self) -> usize {
        match self.threads {
            // Elsewhere the system does not share connections out among listeners.
            0 if !cfg!(target_os = "linux") => 1,
            0 => std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4)),
            threads => threads as usize,
        }
    }

    /// A new budget of retries with these bounds. Whatever else sends requests to workers takes from the same one.
    pub fn retry_budget(&self) -> Arc<RetryBudget> {
        Arc::new(RetryBudget::new(self.retry_share, self.retry_floor))
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    pub(crate) fn worker_tokenize_timeout(&self) -> Duration {
        Duration::from_millis(self.worker_tokenize_timeout_ms)
    }

    pub(crate) fn silence_timeout(&self) -> Option<Duration> {
        (self.silence_timeout_ms > 0).then(|| Duration::from_millis(self.silence_timeout_ms))
    }

    pub(crate) fn request_timeout(&self) -> Option<Duration> {
        (self.request_timeout_ms > 0).then(|| Duration::from_millis(self.request_timeout_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_allowed_and_documented() {
        ProxyConfig::default().validate().unwrap();
        assert!(ProxyConfig::options().iter().all(|option| option.doc.ends_with('.')));
        assert!((1..=4).contains(&ProxyConfig::default().thread_count()));
    }
}
