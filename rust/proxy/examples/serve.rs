//! A proxy alone, for measuring: `serve PORT THREADS WORKER_URL...`. Prompts are matched as text.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example fails loudly")]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::router::SharedRouter;
use warmroute_prompt::Prompter;
use warmroute_proxy::{Control, ControlReply, ControlRequest, Proxy, ProxyConfig};

struct Nothing;

impl Control for Nothing {
    fn handle(&self, _: ControlRequest) -> ControlReply {
        let body = Bytes::from_static(b"ok\n");
        let content_type = "text/plain".to_owned();
        ControlReply { status: StatusCode::OK, content_type, headers: HeaderMap::new(), body }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().unwrap().parse().unwrap();
    let threads = arguments.next().unwrap().parse().unwrap();
    let router = SharedRouter::new(RouterConfig::default(), Instant::now()).unwrap();
    for url in arguments {
        let spec = WorkerSpec { name: url.replace("http://", ""), url, ..WorkerSpec::default() };
        router.lock().add_worker(spec).unwrap();
    }
    let config = ProxyConfig { threads, ..ProxyConfig::default() };
    let prompter = Arc::new(Prompter::without_tokenizer());
    let (retries, control) = (config.retry_budget(), Arc::new(Nothing));
    let proxy = Proxy::start("127.0.0.1", port, config, router, prompter, retries, control).unwrap();
    println!("listening on {}", proxy.addr());
    loop {
        std::thread::park();
    }
}
