//! Prompts whose tokens cannot be made here: a worker is asked for them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::worker::Visit;
use support::{Echo, Stage, Worker, post};
use warmroute_prompt::{Prompter, Rung};
use warmroute_proxy::{Asked, ProxyConfig, ProxyStats, WorkerTokenize};

const CHATS: &str = "/v1/chat/completions";
const RENDER: &str = "/v1/chat/completions/render";

/// A body long enough to be worth a question, with a prompt of its own.
fn chat(prompt: &str) -> String {
    let text = prompt.repeat(1 + 6000 / prompt.len());
    format!(r#"{{"model": "m", "messages": [{{"role": "user", "content": "{text}"}}]}}"#)
}

/// No question is late, however busy the machine is.
fn config() -> ProxyConfig {
    let worker_tokenize = WorkerTokenize::Always;
    ProxyConfig { threads: 1, worker_tokenize, worker_tokenize_timeout_ms: 10_000, ..ProxyConfig::default() }
}

fn path(visit: &Visit) -> &str {
    visit.seen.line().split(' ').nth(1).unwrap()
}

/// A worker that gives `tokens` on `/tokenize`, and has no `/render`.
fn tokenizes(tokens: &'static str) -> Worker {
    Worker::new(move |visit| match path(visit) {
        "/tokenize" => visit.ok(tokens),
        CHATS => visit.ok("{}"),
        _ => visit.reply("404 Not Found", "", "{}"),
    })
}

fn asked(stats: &ProxyStats) -> Vec<(&'static str, u64)> {
    let named = Asked::ALL.iter().map(|asked| asked.name()).zip(stats.asked);
    named.filter(|(_, count)| *count > 0).collect()
}

fn rung(stage: &Stage, body: &str) -> String {
    let reply = stage.ask(post(CHATS, body));
    assert_eq!(reply.status(), 200, "{reply:?}");
    reply.header("x-warmroute-rung").unwrap().to_owned()
}

fn paths(worker: &Worker) -> Vec<String> {
    worker.seen().iter().map(|seen| seen.line().split(' ').nth(1).unwrap().to_owned()).collect()
}

fn await_true(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < support::HANG, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_worker_without_render_is_asked_by_tokenize_and_its_answer_is_kept() {
    let worker = tokenizes(r#"{"count": 3, "max_model_len": 10, "tokens": [1, 2, 3]}"#);
    let stage = Stage::with(&[&worker], config());
    let body = chat("a");
    assert_eq!((rung(&stage, &body).as_str(), rung(&stage, &body).as_str()), ("worker", "worker"));
    assert_eq!(rung(&stage, &chat("b")), "worker");
    // The missing path is asked for once.
    assert_eq!(paths(&worker), [RENDER, "/tokenize", CHATS, CHATS, "/tokenize", CHATS]);
    let question = &worker.seen()[1];
    assert!(String::from_utf8_lossy(&question.body).starts_with(r#"{"model":"m","messages":[{"role""#));
    let stats = stage.settled();
    assert_eq!(asked(&stats), [("answered", 2), ("kept", 1)]);
    assert_eq!(stats.prompts[Rung::Worker as usize], 3);
    assert!(stats.worker_tokens_bytes > 0);
}

#[test]
fn render_gets_the_request_as_it_came_with_its_key() {
    let worker = Worker::new(|visit| match path(visit) {
        RENDER => visit.ok(r#"{"request_id": "x", "token_ids": [5, 6]}"#),
        _ => visit.ok("{}"),
    });
    let stage = Stage::with(&[&worker], config());
    let body = chat("a");
    let head = format!(
        "POST {CHATS} HTTP/1.1\r\nhost: router\r\nauthorization: Bearer k\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let reply = stage.ask(head + &body);
    assert_eq!(reply.header("x-warmroute-rung"), Some("worker"));
    let seen = worker.seen();
    assert_eq!(seen[0].body, body.as_bytes());
    assert_eq!(seen[0].header("authorization"), Some("Bearer k"));
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    // One connection carries the question and the request.
    assert_eq!((seen[1].connection, seen[1].turn), (seen[0].connection, 1));
}

#[test]
fn whatever_a_worker_answers_the_request_goes_on() {
    let answers: [(&str, &str, &str); 10] = [
        ("400 Bad Request", "{}", "refused"),
        ("401 Unauthorized", "{}", "denied"),
        ("403 Forbidden", "{}", "denied"),
        ("429 Too Many Requests", "{}", "failed"),
        ("500 Internal Server Error", "{}", "failed"),
        ("404 Not Found", "{}", "nobody"),
        ("200 OK", "garbage", "failed"),
        ("200 OK", r#"{"tokens": [-1]}"#, "failed"),
        ("200 OK", r#"{"tokens": null}"#, "failed"),
        ("200 OK", "", "failed"),
    ];
    for (status, body, outcome) in answers {
        let worker = Worker::new(move |visit| match path(visit) {
            CHATS => visit.ok("{}"),
            "/tokenize" => visit.reply(status, "", body),
            _ => visit.reply("404 Not Found", "", "{}"),
        });
        let stage = Stage::with(&[&worker], config());
        assert_eq!(rung(&stage, &chat("a")), "text", "{status} {body}");
        assert_eq!(asked(&stage.settled()), [(outcome, 1)], "{status} {body}");
    }
}

#[test]
fn a_key_that_does_not_open_the_worker_is_the_client_s_affair() {
    let worker = Worker::new(|visit| match path(visit) {
        CHATS => visit.ok("{}"),
        "/tokenize" if visit.seen.header("authorization") == Some("Bearer good") => {
            visit.ok(r#"{"tokens": [1]}"#);
        }
        "/tokenize" => visit.reply("403 Forbidden", "", "{}"),
        _ => visit.reply("404 Not Found", "", "{}"),
    });
    let stage = Stage::with(&[&worker], config());
    let body = chat("a");
    let rung = |key: &str| {
        let head = format!("POST {CHATS} HTTP/1.1\r\nhost: router\r\nauthorization: Bearer {key}");
        let reply = stage.ask(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
        reply.header("x-warmroute-rung").unwrap().to_owned()
    };
    assert_eq!((rung("bad").as_str(), rung("good").as_str()), ("text", "worker"));
    assert_eq!(asked(&stage.settled()), [("answered", 1), ("denied", 1)]);
}

#[test]
fn a_worker_that_resets_the_connection_is_left_alone_for_a_while() {
    let worker = Worker::new(|visit| match path(visit) {
        CHATS => visit.ok("{}"),
        _ => visit.close(),
    });
    let stage = Stage::with(&[&worker], config());
    assert_eq!((rung(&stage, &chat("a")), rung(&stage, &chat("b"))), ("text".into(), "text".into()));
    assert_eq!(asked(&stage.settled()), [("failed", 1), ("nobody", 1)]);
}

#[test]
fn a_slow_worker_costs_no_more_than_the_bound() {
    let worker = Worker::new(|visit| match path(visit) {
        CHATS => visit.ok("{}"),
        _ => {
            visit.closed();
        }
    });
    let stage = Stage::with(&[&worker], ProxyConfig { worker_tokenize_timeout_ms: 100, ..config() });
    let began = Instant::now();
    assert_eq!(rung(&stage, &chat("a")), "text");
    assert!(began.elapsed() >= Duration::from_millis(100));
    assert_eq!(rung(&stage, &chat("a")), "text");
    assert_eq!(asked(&stage.settled()), [("late", 1), ("nobody", 1)]);
}

#[test]
fn the_same_question_is_asked_once_at_a_time_and_few_are_asked_at_once() {
    let open = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let all_came = Arc::new(AtomicBool::new(false));
    let (counted, go) = (Arc::clone(&open), Arc::clone(&all_came));
    let worker = Worker::new(move |visit| match path(visit) {
        "/tokenize" => {
            let now = counted.0.fetch_add(1, Ordering::SeqCst) + 1;
            counted.1.fetch_max(now, Ordering::SeqCst);
            await_true("every client asks", || go.load(Ordering::SeqCst));
            counted.0.fetch_sub(1, Ordering::SeqCst);
            visit.ok(r#"{"tokens": [1, 2]}"#);
        }
        CHATS => visit.ok("{}"),
        _ => visit.reply("404 Not Found", "", "{}"),
    });
    let config = ProxyConfig { threads: 2, worker_tokenize_concurrency: 2, ..config() };
    let stage = Stage::with(&[&worker], config);
    let names = ["a", "b", "c", "d"];
    std::thread::scope(|scope| {
        for client in 0..24 {
            let stage = &stage;
            scope.spawn(move || assert_eq!(rung(stage, &chat(names[client % 4])), "worker"));
        }
        stage.until("all requests are open", |stats| stats.requests_open == 24);
        await_true("two questions are under way", || open.0.load(Ordering::SeqCst) >= 2);
        all_came.store(true, Ordering::SeqCst);
    });
    assert_eq!(open.1.load(Ordering::SeqCst), 2);
    let stats = stage.settled();
    assert_eq!(stats.asked[Asked::Answered as usize], 4);
    let shared = stats.asked[Asked::Shared as usize] + stats.asked[Asked::Kept as usize];
    assert_eq!(shared, 20);
}

#[test]
fn who_would_wait_for_too_many_others_goes_on_as_text() {
    let worker = Worker::new(|visit| match path(visit) {
        CHATS => visit.ok("{}"),
        _ => {
            visit.closed();
        }
    });
    let config =
        ProxyConfig { worker_tokenize_concurrency: 1, worker_tokenize_timeout_ms: 60_000, ..config() };
    let stage = Stage::with(&[&worker], config);
    let mut clients: Vec<_> = (0..2).map(|_| stage.client()).collect();
    for (client, name) in clients.iter_mut().zip(["a", "b"]) {
        client.send(post(CHATS, chat(name)));
    }
    stage.until("both are open", |stats| stats.requests_open == 2);
    assert_eq!(rung(&stage, &chat("c")), "text");
    assert_eq!(asked(&stage.stats()), [("busy", 1)]);
}

#[test]
fn a_client_that_leaves_its_question_leaves_it_to_the_next() {
    let questions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&questions);
    let worker = Worker::new(move |visit| match path(visit) {
        "/tokenize" if counted.fetch_add(1, Ordering::SeqCst) == 0 => {
            visit.closed();
        }
        "/tokenize" => visit.ok(r#"{"tokens": [1, 2]}"#),
        CHATS => visit.ok("{}"),
        _ => visit.reply("404 Not Found", "", "{}"),
    });
    let stage = Stage::with(&[&worker], ProxyConfig { worker_tokenize_timeout_ms: 20_000, ..config() });
    let body = chat("a");
    let mut first = stage.client();
    first.send(post(CHATS, &body));
    await_true("the question is asked", || questions.load(Ordering::SeqCst) > 0);
    let mut second = stage.client();
    second.send(post(CHATS, &body));
    stage.until("both are open", |stats| stats.requests_open == 2);
    drop(first);
    assert_eq!(second.reply().header("x-warmroute-rung"), Some("worker"));
    assert_eq!(questions.load(Ordering::SeqCst), 2);
}

#[test]
fn bodies_that_are_not_worth_it_are_not_asked_for() {
    let worker = tokenizes(r#"{"tokens": [1, 2]}"#);
    let long = "x".repeat(2 << 20);
    let image = r#"[{"type": "image_url", "image_url": {"url": "http://h/i.png"}}]"#;
    let media = format!(
        r#"{{"model": "m", "messages": [{{"role": "user", "content": {image}}}], "x": "{}"}}"#,
        "y".repeat(6000)
    );
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/warmroute/data/tokenizer");
    let prompter = Prompter::load(folder.as_ref(), &Default::default()).unwrap();
    let with_tokenizer = Stage::start(&[worker.url()], config(), prompter, Arc::new(Echo));
    let without = Stage::with(&[&worker], config());
    for (stage, body, expected) in [
        (&without, support::chat("short"), "text"),
        (&without, chat(&long), "text"),
        (&with_tokenizer, media, "media"),
    ] {
        assert_eq!(rung(stage, &body), expected);
        assert_eq!(asked(&stage.settled()), []);
    }
    let reply = with_tokenizer.ask(post(CHATS, chat("a")));
    assert_eq!(reply.header("x-warmroute-rung"), Some("local"));
}

#[test]
fn without_a_tokenizer_nobody_is_asked_unless_always() {
    for (choice, expected) in
        [(WorkerTokenize::Off, "text"), (WorkerTokenize::Auto, "text"), (WorkerTokenize::Always, "worker")]
    {
        let worker = tokenizes(r#"{"tokens": [1, 2]}"#);
        let stage = Stage::with(&[&worker], ProxyConfig { worker_tokenize: choice, ..config() });
        assert_eq!(rung(&stage, &chat("a")), expected);
    }
}

#[test]
fn a_refused_tokenizer_asks_the_worker_and_is_counted_by_reason() {
    use warmroute_prompt::{Refused, Trust, Verdict};

    let worker = tokenizes(r#"{"tokens": [1, 2]}"#);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/warmroute/data/tokenizer");
    let prompter = Prompter::load(folder.as_ref(), &Default::default()).unwrap();
    prompter.set_trust("m", Trust { text: Verdict::Verified, chat: Verdict::Refused });
    let config = ProxyConfig { worker_tokenize: WorkerTokenize::Auto, ..config() };
    let stage = Stage::start(&[worker.url()], config, prompter, Arc::new(Echo));
    assert_eq!(rung(&stage, &chat("a")), "worker");
    let short = stage.ask(post(CHATS, support::chat("short")));
    assert_eq!(short.header("x-warmroute-rung"), Some("text"));
    let completion = format!(r#"{{"model": "m", "prompt": "{}"}}"#, "a ".repeat(3000));
    let reply = stage.ask(post("/v1/completions", completion));
    assert_eq!(reply.header("x-warmroute-rung"), Some("local"));
    assert_eq!(stage.settled().inexact[Refused::TemplateDiffers as usize], 2);
}

#[test]
fn the_worker_with_the_fewest_requests_is_asked() {
    let busy = Worker::new(|visit| match path(visit) {
        CHATS => {
            visit.closed();
        }
        _ => visit.ok(r#"{"tokens": [1]}"#),
    });
    let idle = tokenizes(r#"{"tokens": [1, 2]}"#);
    let stage = Stage::with(&[&busy, &idle], ProxyConfig { retries: false, ..config() });
    let mut held = stage.client();
    held.send(post(CHATS, support::chat("short")));
    stage.until("the first is with its worker", |_| busy.seen().len() == 1);
    stage.ask(post(CHATS, chat("a")));
    assert_eq!(paths(&busy), [CHATS]);
    assert_eq!(paths(&idle), [RENDER, "/tokenize", CHATS]);
}
