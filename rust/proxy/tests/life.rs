//! Limits, timeouts, what is answered here, and the end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use support::{Echo, HANG, Stage, Worker, chat, count, post, post_chat};
use warmroute_core::fleet::WorkerSpec;
use warmroute_proxy::{
    Control, ControlReply, ControlRequest, Ending, Kind, ProxyConfig, ProxyError, RefusalKind,
};

const PATH: &str = "/v1/chat/completions";

fn config() -> ProxyConfig {
    ProxyConfig { threads: 1, ..ProxyConfig::default() }
}

#[test]
fn bad_requests_are_refused_in_openais_shape() {
    let worker = Worker::ok();
    let stage = Stage::new(&[&worker]);
    for (body, says) in [
        ("{\"messages\": [", "JSON"),
        ("", "JSON"),
        ("[]", "object"),
        ("{}", "messages"),
        ("{\"messages\": 7}", "messages"),
        ("\u{1}", "JSON"),
        ("{\"messages\":[],\"model\":1}", "model"),
    ] {
        let reply = stage.ask(post(PATH, body));
        assert_eq!((reply.status(), &*reply.error_code()), (400, ""), "{body}");
        assert!(reply.json()["error"]["message"].as_str().unwrap().contains(says), "{}", reply.text());
    }
    let reply = stage.ask(post(PATH, [0xff]));
    assert_eq!(reply.status(), 400);
    let chunked = format!("POST {PATH} HTTP/1.1\r\nhost: r\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n");
    assert_eq!(stage.ask(chunked).status(), 400);
    let reply = stage.ask(post("/v1/messages", "{}"));
    assert_eq!((reply.status(), &reply.json()["type"]), (400, &"error".into()));
    assert_eq!(worker.seen().len(), 0);
    assert_eq!(stage.settled().refusals[RefusalKind::InvalidRequest as usize], 10);
}

#[test]
fn what_the_fleet_cannot_take_is_refused_with_the_right_status() {
    let worker = Worker::new(|visit| {
        visit.closed();
    });
    let stage = Stage::new(&[]);
    let spec = WorkerSpec {
        name: "w".to_owned(),
        url: worker.url(),
        models: vec!["known".to_owned()],
        max_model_len: Some(8),
        max_requests: Some(1),
        ..WorkerSpec::default()
    };
    stage.router.lock().add_worker(spec).unwrap();
    let reply = stage.ask(post_chat("x"));
    assert_eq!((reply.status(), &*reply.error_code()), (404, "model_not_found"));
    let reply = stage.ask(post("/v1/completions", r#"{"model":"known","prompt":[1,2,3,4,5,6,7,8,9]}"#));
    assert_eq!((reply.status(), &*reply.error_code()), (413, "context_length_exceeded"));
    let short = post("/v1/completions", r#"{"model":"known","prompt":[1,2]}"#);
    let mut first = stage.client();
    first.send(&short);
    stage.until("the worker's turn", |_| worker.seen().len() == 1);
    let reply = stage.ask(&short);
    assert_eq!((reply.status(), &*reply.error_code()), (429, "saturated"));
    assert!(reply.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    stage.router.lock().set_ready("w", false).unwrap();
    assert_eq!(stage.ask(&short).status(), 503);
}

#[test]
fn a_long_body_is_refused_before_and_while_it_comes() {
    let worker = Worker::ok();
    let stage = Stage::with(&[&worker], ProxyConfig { body_limit_bytes: 100_000, ..config() });
    // Announced: the client sends all of it nevertheless before it reads.
    let mut client = stage.client();
    client.try_send(post(PATH, vec![b'x'; 3_000_000]));
    let reply = client.reply();
    assert_eq!((reply.status(), &*reply.error_code()), (413, "request_too_large"));
    assert!(client.is_closed());
    let mut client = stage.client();
    client.send(format!("POST {PATH} HTTP/1.1\r\nhost: r\r\ntransfer-encoding: chunked\r\n\r\n"));
    for _ in 0..30 {
        client.try_send(format!("{:x}\r\n{}\r\n", 10_000, "x".repeat(10_000)));
    }
    assert_eq!(client.reply().status(), 413);
    let exact = chat(&"x".repeat(100_000 - chat("").len()));
    assert_eq!(stage.ask(post(PATH, exact)).status(), 200);
    let stats = stage.settled();
    assert_eq!(stats.refusals[RefusalKind::BodyTooLarge as usize], 2);
    assert_eq!(worker.seen().len(), 1);
}

#[test]
fn bodies_beyond_the_room_are_refused_until_there_is_room() {
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let worker = Worker::new(move |visit| {
        gone.lock().unwrap().recv().unwrap();
        visit.ok("{}");
    });
    let stage = Stage::with(&[&worker], ProxyConfig { held_bodies_bytes: 1 << 20, ..config() });
    let long = "x".repeat(600_000);
    let mut first = stage.client();
    first.send(post_chat(&long));
    stage.until("the worker's turn", |_| worker.seen().len() == 1);
    let mut second = stage.client();
    second.try_send(post_chat(&long));
    let reply = second.reply();
    assert_eq!(
        (reply.status(), &*reply.error_code(), reply.header("retry-after").is_some()),
        (503, "busy", true)
    );
    go.send(()).unwrap();
    go.send(()).unwrap();
    assert_eq!(first.reply().status(), 200);
    assert_eq!(stage.ask(post_chat(&long)).status(), 200);
}

#[test]
fn a_head_that_is_too_long_or_no_http_is_refused() {
    let stage = Stage::new(&[]);
    for request in [
        format!("GET /v1/x HTTP/1.1\r\nhost: r\r\nx-long: {}\r\n\r\n", "x".repeat(100_000)),
        format!("GET /{} HTTP/1.1\r\nhost: r\r\n\r\n", "x".repeat(100_000)),
        format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1000)),
        "\u{16}\u{3}\u{1}hello hello\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nno colon\r\n\r\n".to_owned(),
        "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx".to_owned(),
        "POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\nxx".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ] {
        let mut client = stage.client();
        client.try_send(&request);
        let answer = String::from_utf8(client.some()).unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert!(client.is_closed());
    }
    stage.settled();
}

#[test]
fn slow_clients_are_closed() {
    let worker = Worker::new(|visit| {
        visit.send("HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n");
        visit.send(vec![b'x'; 50_000_000]);
    });
    let short = ProxyConfig {
        head_timeout_ms: 300,
        body_timeout_ms: 300,
        idle_timeout_ms: 300,
        send_timeout_ms: 300,
        ..config()
    };
    let stage = Stage::with(&[&worker], short);
    let began = Instant::now();
    let mut idle = stage.client();
    let mut head = stage.client();
    head.send("POST /v1/chat");
    let mut body = stage.client();
    body.send(&post_chat("x")[..90]);
    let mut deaf = stage.client();
    deaf.send(post_chat("x"));
    assert!(idle.is_closed() && head.is_closed() && body.is_closed());
    stage.until("the client that does not read", |stats| stats.timeouts == 4);
    assert!(began.elapsed() >= Duration::from_millis(300));
    // A head that comes byte by byte does not gain time by it.
    let mut drip = stage.client();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        drip.try_send("G");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(drip.is_closed());
    stage.until("connections", |stats| stats.connections_open == 0 && stats.timeouts == 5);
}

#[test]
fn a_worker_may_take_longer_than_any_timeout_of_clients() {
    let worker = Worker::new(|visit| {
        std::thread::sleep(Duration::from_millis(900));
        visit.ok("{}");
    });
    let short = ProxyConfig {
        head_timeout_ms: 200,
        body_timeout_ms: 200,
        idle_timeout_ms: 200,
        send_timeout_ms: 200,
        ..config()
    };
    let stage = Stage::with(&[&worker], short);
    assert_eq!(stage.ask(post_chat("x")).status(), 200);
    assert_eq!(stage.stats().timeouts, 0);
}

#[test]
fn an_idle_connection_gives_its_buffer_back_and_serves_on() {
    let worker = Worker::new(|visit| {
        let length = visit.seen.body.len();
        visit.ok(length.to_string());
    });
    let stage = Stage::new(&[&worker]);
    let request = post_chat(&"x".repeat(300_000));
    let body = chat(&"x".repeat(300_000)).len().to_string();
    let mut plain = stage.client();
    let mut ahead = stage.client();
    for client in [&mut plain, &mut ahead] {
        client.send(&request);
        assert_eq!(client.reply().text(), body);
    }
    // The beginning of the next request is in the proxy's buffer while that is exchanged.
    ahead.send([&request[..], &request[..40]].concat());
    assert_eq!(ahead.reply().text(), body);
    // Nothing outside shows when it happens; too short a wait would only test less.
    std::thread::sleep(Duration::from_millis(2_500));
    plain.send(&request);
    ahead.send(&request[40..]);
    for client in [&mut plain, &mut ahead] {
        assert_eq!(client.reply().text(), body);
    }
    assert_eq!(stage.settled().connections, 2);
}

#[test]
fn connections_are_bounded_and_wait() {
    let worker = Worker::ok();
    let stage = Stage::with(&[&worker], ProxyConfig { max_connections: 2, ..config() });
    let first = stage.client();
    let second = stage.client();
    stage.until("two connections", |stats| stats.connections_open == 2);
    let mut third = stage.client();
    third.send(post_chat("x"));
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!((stage.stats().connections_open, worker.seen().len()), (2, 0));
    first.leave();
    assert_eq!(third.reply().status(), 200);
    drop(second);
}

#[test]
fn other_paths_are_answered_here() {
    let worker = Worker::ok();
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    for (request, answer) in [
        ("GET /metrics?a=b HTTP/1.1\r\nhost: r\r\n\r\n".to_owned(), "GET /metrics a=b "),
        ("GET /v1/models HTTP/1.1\r\nhost: r\r\n\r\n".to_owned(), "GET /v1/models  "),
        ("GET http://router/healthz HTTP/1.1\r\nhost: r\r\n\r\n".to_owned(), "GET /healthz  "),
        ("OPTIONS * HTTP/1.1\r\nhost: r\r\n\r\n".to_owned(), "OPTIONS *  "),
        (
            String::from_utf8(post("/warmroute/v1/explain", "{\"a\":1}")).unwrap(),
            "POST /warmroute/v1/explain  {\"a\":1}",
        ),
    ] {
        client.send(&request);
        let reply = client.reply();
        assert_eq!(
            (reply.status(), reply.header("content-type"), reply.header("allow"), reply.text()),
            (200, Some("text/plain"), Some("GET"), answer)
        );
        assert!(reply.header("x-request-id").is_some());
    }
    client.send("HEAD /healthz HTTP/1.1\r\nhost: r\r\n\r\n");
    assert!(client.until("\r\n\r\n").starts_with("HTTP/1.1 200"));
    client.send("GET /panic HTTP/1.1\r\nhost: r\r\n\r\n");
    assert_eq!(client.reply().status(), 500);
    let refused = stage.ask("CONNECT example.com:443 HTTP/1.1\r\nhost: r\r\n\r\n");
    assert_eq!(refused.status(), 400);
    assert_eq!(worker.seen().len(), 0);
    assert_eq!(count(&stage.settled(), Kind::Control, Ending::Success), 6);
}

/// A control side whose calls wait until they are let go.
struct Gate {
    waiting: AtomicUsize,
    go: Mutex<mpsc::Receiver<()>>,
}

impl Control for Gate {
    fn handle(&self, _: ControlRequest) -> ControlReply {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _ = self.go.lock().unwrap().recv();
        let content_type = "text/plain".to_owned();
        ControlReply { status: StatusCode::OK, content_type, headers: HeaderMap::new(), body: Bytes::new() }
    }
}

#[test]
fn a_blocked_control_side_holds_up_nothing_else() {
    let (go, gone) = mpsc::channel();
    let gate = Arc::new(Gate { waiting: AtomicUsize::new(0), go: Mutex::new(gone) });
    let worker = Worker::ok();
    let limits = ProxyConfig { control_threads: 2, control_queue: 5, ..config() };
    let stage = Stage::on(&[worker.url()], limits, Arc::clone(&gate) as Arc<dyn Control>);
    let mut clients: Vec<_> = (0..5)
        .map(|_| {
            let mut client = stage.client();
            client.send("GET /metrics HTTP/1.1\r\nhost: r\r\n\r\n");
            client
        })
        .collect();
    stage.until("five requests", |stats| stats.requests_open == 5);
    let refused = stage.ask("GET /metrics HTTP/1.1\r\nhost: r\r\n\r\n");
    assert_eq!((refused.status(), &*refused.error_code()), (503, "busy"));
    assert_eq!(stage.ask(post_chat("x")).status(), 200);
    assert!(gate.waiting.load(Ordering::SeqCst) <= 2);
    // One that leaves while it waits gives its place back.
    clients.pop().unwrap().leave();
    stage.until("four requests", |stats| stats.requests_open == 4);
    let mut next = stage.client();
    next.send("GET /metrics HTTP/1.1\r\nhost: r\r\n\r\n");
    clients.push(next);
    for _ in 0..6 {
        let _ = go.send(());
    }
    for client in &mut clients {
        assert_eq!(client.reply().status(), 200);
    }
    drop(go);
    stage.settled();
}

#[test]
fn a_drain_finishes_what_runs_and_takes_nothing_new() {
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let worker = Worker::new(move |visit| {
        visit.stream_head();
        visit.chunk("data: 1\n\n");
        gone.lock().unwrap().recv().unwrap();
        visit.chunk("data: 2\n\n");
        visit.send("0\r\n\r\n");
    });
    let stage = Stage::new(&[&worker]);
    let mut idle = stage.client();
    idle.send("GET /healthz HTTP/1.1\r\nhost: r\r\n\r\n");
    idle.reply();
    let mut client = stage.client();
    client.send(post_chat("x"));
    client.until("data: 1\n\n");
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| stage.proxy.drain(HANG));
        assert!(idle.is_closed());
        stage.until("the end of listening", |_| std::net::TcpStream::connect(stage.addr()).is_err());
        go.send(()).unwrap();
        client.until("data: 2\n\n\r\n0\r\n\r\n");
        assert!(client.is_closed());
        assert!(drained.join().unwrap());
    });
    assert_eq!(count(&stage.settled(), Kind::ChatCompletions, Ending::Success), 1);
}

#[test]
fn a_drain_ends_at_its_deadline_and_a_stop_at_once() {
    let worker = Worker::new(|visit| {
        visit.closed();
    });
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    client.send(post_chat("x"));
    stage.until("the worker's turn", |_| worker.seen().len() == 1);
    let began = Instant::now();
    assert!(!stage.proxy.drain(Duration::from_millis(200)));
    assert!(began.elapsed() >= Duration::from_millis(200) && began.elapsed() < Duration::from_secs(2));
    assert!(client.is_closed());
    stage.settled();

    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    client.send(post_chat("x"));
    stage.until("the worker's turn", |_| worker.seen().len() == 2);
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| stage.proxy.drain(HANG));
        stage.proxy.stop();
        assert!(client.is_closed());
        drained.join().unwrap();
    });
    stage.settled();
}

#[test]
fn several_threads_share_the_work_and_the_counters() {
    let worker = Worker::ok();
    let stage = Stage::with(&[&worker], ProxyConfig { threads: 3, ..ProxyConfig::default() });
    for _ in 0..60 {
        assert_eq!(stage.ask(post_chat("x")).status(), 200);
    }
    assert_eq!(count(&stage.settled(), Kind::ChatCompletions, Ending::Success), 60);
    assert_eq!(stage.stats().connections, 60);
}

#[test]
fn a_start_that_cannot_be_says_why() {
    let router = Stage::new(&[]).router.clone();
    let start = |host: &str, port, config| {
        let prompter = Arc::new(warmroute_prompt::Prompter::without_tokenizer());
        let retries = ProxyConfig::default().retry_budget();
        warmroute_proxy::Proxy::start(host, port, config, router.clone(), prompter, retries, Arc::new(Echo))
    };
    let error = start("127.0.0.1", 0, ProxyConfig { body_limit_bytes: 1, ..config() }).unwrap_err();
    assert!(matches!(error, ProxyError::Config(_)), "{error}");
    assert!(matches!(start("no.such.host.invalid", 0, config()).unwrap_err(), ProxyError::Host { .. }));
    assert!(matches!(start("203.0.113.1", 0, config()).unwrap_err(), ProxyError::Listen { .. }));
}
