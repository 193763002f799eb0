//! A worker that does what a test says, a client that sees every byte, and a proxy between them.
#![allow(dead_code, reason = "no test file uses all of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

pub(crate) mod client;
pub(crate) mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use warmroute_core::admit::RetryBudget;
use warmroute_core::config::{Policy, RouterConfig};
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::router::SharedRouter;
use warmroute_prompt::Prompter;
use warmroute_proxy::{Control, ControlReply, ControlRequest, Ending, Kind, Proxy, ProxyConfig, ProxyStats};

pub(crate) use client::{Client, Reply};
pub(crate) use worker::Worker;

/// Nothing in these tests takes this long; what does is a hang.
pub(crate) const HANG: Duration = Duration::from_secs(20);

/// A chat body with a prompt of its own.
pub(crate) fn chat(prompt: &str) -> String {
    format!(
        r#"{{"model": "m", "messages": [{{"role": "user", "content": "{prompt}"}}], "temperature": 0.30000000000000004}}"#
    )
}

/// A request with `body` on `path`.
pub(crate) fn post(path: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("POST {path} HTTP/1.1\r\nhost: router\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A chat request.
pub(crate) fn post_chat(prompt: &str) -> Vec<u8> {
    post("/v1/chat/completions", chat(prompt))
}

/// A control side that says what it was asked.
pub(crate) struct Echo;

impl Control for Echo {
    fn handle(&self, request: ControlRequest) -> ControlReply {
        if request.path == "/panic" {
            panic!("asked to");
        }
        let ControlRequest { method, path, query, body, headers: _ } = request;
        let body = format!("{method} {path} {query} {}", String::from_utf8_lossy(&body));
        ControlReply {
            status: StatusCode::OK,
            content_type: "text/plain".to_owned(),
            headers: HeaderMap::from_iter([(header::ALLOW, HeaderValue::from_static("GET"))]),
            body: Bytes::from(body),
        }
    }
}

/// A proxy in front of workers.
pub(crate) struct Stage {
    pub(crate) proxy: Proxy,
    pub(crate) router: SharedRouter,
    pub(crate) retries: Arc<RetryBudget>,
}

impl Stage {
    /// In front of `workers` named w0, w1 and so on, which are taken in turn.
    pub(crate) fn new(workers: &[&Worker]) -> Stage {
        Stage::with(workers, ProxyConfig { threads: 1, ..ProxyConfig::default() })
    }

    pub(crate) fn with(workers: &[&Worker], config: ProxyConfig) -> Stage {
        Stage::on(&workers.iter().map(|worker| worker.url()).collect::<Vec<_>>(), config, Arc::new(Echo))
    }

    pub(crate) fn on(urls: &[String], config: ProxyConfig, control: Arc<dyn Control>) -> Stage {
        Stage::start(urls, config, Prompter::without_tokenizer(), control)
    }

    pub(crate) fn start(
        urls: &[String],
        config: ProxyConfig,
        prompter: Prompter,
        control: Arc<dyn Control>,
    ) -> Stage {
        let policy = RouterConfig { policy: Policy::RoundRobin, ..RouterConfig::default() };
        let router = SharedRouter::new(policy, Instant::now()).unwrap();
        for (index, url) in urls.iter().enumerate() {
            let spec = WorkerSpec { name: format!("w{index}"), url: url.clone(), ..WorkerSpec::default() };
            router.lock().add_worker(spec).unwrap();
        }
        let (shared, prompter, retries) = (router.clone(), Arc::new(prompter), config.retry_budget());
        let taken = Arc::clone(&retries);
        let proxy = Proxy::start("127.0.0.1", 0, config, shared, prompter, taken, control).unwrap();
        Stage { proxy, router, retries }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.proxy.addr()
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.addr())
    }

    /// The reply to `request` on a connection of its own.
    pub(crate) fn ask(&self, request: impl AsRef<[u8]>) -> Reply {
        let mut client = self.client();
        client.send(request);
        client.reply()
    }

    pub(crate) fn stats(&self) -> ProxyStats {
        self.proxy.stats()
    }

    /// Waits until `condition` holds of the counters.
    pub(crate) fn until(&self, what: &str, condition: impl Fn(&ProxyStats) -> bool) -> ProxyStats {
        let began = Instant::now();
        loop {
            let stats = self.stats();
            if condition(&stats) {
                return stats;
            }
            assert!(began.elapsed() < HANG, "{what}: {stats:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until nothing is open, and checks that the ledger and the gauges agree.
    pub(crate) fn settled(&self) -> ProxyStats {
        let stats = self.until("open requests", |stats| stats.requests_open == 0);
        let router = self.router.lock().stats();
        assert_eq!((router.open, router.abandoned), (0, 0));
        stats
    }
}

/// Requests of `kind` that ended with `ending`.
pub(crate) fn count(stats: &ProxyStats, kind: Kind, ending: Ending) -> u64 {
    stats.requests[kind as usize][ending as usize]
}
