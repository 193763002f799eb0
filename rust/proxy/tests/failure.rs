//! Workers that fail: who is asked next, and what the client gets.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use support::{Echo, Stage, Worker, chat, count, post_chat};
use warmroute_core::fleet::WorkerSpec;
use warmroute_proxy::{Ending, Kind, ProxyConfig, RefusalKind, RetryReason};

fn config() -> ProxyConfig {
    ProxyConfig { threads: 1, ..ProxyConfig::default() }
}

/// An address that nothing listens on.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn an_unreachable_worker_costs_one_retry() {
    let worker = Worker::ok();
    let stage = Stage::on(&[nobody(), worker.url()], config(), Arc::new(Echo));
    let reply = stage.ask(post_chat("x"));
    assert_eq!((reply.status(), reply.header("x-warmroute-worker")), (200, Some("w1")));
    assert_eq!(worker.seen()[0].body, chat("x").as_bytes());
    let stats = stage.settled();
    assert_eq!(stats.retries[RetryReason::Connect as usize], 1);
    assert_eq!(stats.worker_connect_failures, 1);
    let router = stage.router.lock().stats();
    assert_eq!((router.failed, router.finished, router.abandoned), (1, 1, 0));
}

#[test]
fn a_worker_that_closes_before_a_head_costs_one_retry() {
    let broken = Worker::new(|visit| visit.close());
    let worker = Worker::ok();
    let stage = Stage::new(&[&broken, &worker]);
    assert_eq!(stage.ask(post_chat("x")).status(), 200);
    assert_eq!(stage.settled().retries[RetryReason::Closed as usize], 1);
    assert_eq!(broken.seen().len(), 1);
}

#[test]
fn a_502_and_a_503_go_to_another_worker_and_others_pass() {
    for (status, reason) in [
        ("502 Bad Gateway", Some(RetryReason::BadGateway)),
        ("503 Service Unavailable", Some(RetryReason::Unavailable)),
        // With `retry-after`, as all of those that follow: a shed.
        ("503 Service Unavailable", None),
        ("500 Internal Server Error", None),
        ("504 Gateway Timeout", None),
        ("429 Too Many Requests", None),
        ("400 Bad Request", None),
        ("404 Not Found", None),
    ] {
        let retry_after = if reason.is_some() { "" } else { "retry-after: 7\r\n" };
        let sick = Worker::new(move |visit| visit.reply(status, retry_after, "no"));
        let worker = Worker::ok();
        let stage = Stage::new(&[&sick, &worker]);
        let reply = stage.ask(post_chat("x"));
        let stats = stage.settled();
        assert_eq!(stats.retries.iter().sum::<u64>(), u64::from(reason.is_some()), "{status}");
        match reason {
            Some(reason) => {
                assert_eq!((reply.status(), stats.retries[reason as usize]), (200, 1), "{status}");
            }
            None => {
                assert!(reply.head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{}", reply.head);
                assert_eq!((reply.header("retry-after"), reply.text()), (Some("7"), "no"));
                assert_eq!(worker.seen().len(), 0, "{status}");
            }
        }
    }
}

#[test]
fn there_is_one_retry_and_no_more() {
    let sick: Vec<_> = (0..4)
        .map(|index| {
            Worker::new(move |visit| visit.reply("502 Bad Gateway", "retry-after: 7\r\n", format!("{index}")))
        })
        .collect();
    let stage = Stage::new(&sick.iter().collect::<Vec<_>>());
    let reply = stage.ask(post_chat("x"));
    assert_eq!((reply.status(), reply.header("retry-after")), (502, Some("7")));
    assert_ne!(reply.text(), "0");
    assert_eq!(sick.iter().map(|worker| worker.seen().len()).sum::<usize>(), 2);
}

#[test]
fn with_nobody_else_a_workers_reply_passes_unchanged() {
    let sick = Worker::new(|visit| visit.reply("503 Service Unavailable", "retry-after: 7\r\n", "full"));
    let stage = Stage::new(&[&sick]);
    let reply = stage.ask(post_chat("x"));
    assert_eq!((reply.status(), reply.header("retry-after"), reply.text()), (503, Some("7"), "full"));
    let stats = stage.settled();
    assert_eq!((stats.retries.iter().sum::<u64>(), stats.retries_denied), (0, 0));
    assert_eq!(stage.router.lock().stats().no_eligible_worker, 0);
    assert_eq!(count(&stats, Kind::ChatCompletions, Ending::ServerError), 1);
}

#[test]
fn another_rank_of_the_same_process_is_not_another_worker() {
    let sick = Worker::new(|visit| visit.close());
    let stage = Stage::on(&[sick.url()], config(), Arc::new(Echo));
    let rank = |name: &str, rank| WorkerSpec {
        name: name.to_owned(),
        url: sick.url(),
        dp_rank: Some(rank),
        ..WorkerSpec::default()
    };
    stage.router.lock().update_worker(rank("w0", 0)).unwrap();
    stage.router.lock().add_worker(rank("w1", 1)).unwrap();
    assert_eq!(stage.ask(post_chat("x")).status(), 502);
    assert_eq!(sick.seen().len(), 1);
    assert!(matches!(sick.seen()[0].header("x-data-parallel-rank"), Some("0" | "1")));
    stage.settled();
}

#[test]
fn the_budget_bounds_the_retries() {
    let sick = Worker::new(|visit| visit.reply("503 Service Unavailable", "", "full"));
    let other = Worker::new(|visit| visit.reply("503 Service Unavailable", "", "full"));
    let budget = ProxyConfig { retry_share: 0.1, retry_floor: 0.5, ..config() };
    let stage = Stage::with(&[&sick, &other], budget);
    let mut client = stage.client();
    for _ in 0..100 {
        client.send(post_chat("x"));
        assert_eq!(client.reply().status(), 503);
    }
    let stats = stage.settled();
    let sent = sick.seen().len() + other.seen().len();
    assert_eq!(sent as u64, 100 + stats.retries.iter().sum::<u64>());
    // Five from the floor, and at most a tenth of the requests; a second that goes by gives none back.
    assert!((105..=115).contains(&sent), "{sent}");
    assert_eq!(stats.retries_denied, 200 - sent as u64);
    let stage = Stage::with(&[&sick, &other], ProxyConfig { retries: false, ..config() });
    stage.ask(post_chat("x"));
    assert_eq!(stage.settled().retries, [0; 4]);
}

#[test]
fn the_budget_is_that_of_every_way_in() {
    let sick = Worker::new(|visit| visit.reply("503 Service Unavailable", "", "full"));
    let other = Worker::new(|visit| visit.reply("503 Service Unavailable", "", "full"));
    let budget = ProxyConfig { retry_share: 0.5, retry_floor: 0.0, ..config() };
    let stage = Stage::with(&[&sick, &other], budget);
    let take = || stage.retries.take(stage.router.time(Instant::now()));
    // The requests here allow retries elsewhere, and what is taken there is missing here.
    stage.ask(post_chat("x"));
    assert!(!take());
    stage.ask(post_chat("x"));
    let stats = stage.settled();
    assert_eq!((stats.retries.iter().sum::<u64>(), stats.retries_denied), (1, 1));
    for _ in 0..4 {
        stage.retries.request(stage.router.time(Instant::now()));
    }
    assert!(take() && take() && !take());
    stage.ask(post_chat("x"));
    assert_eq!(stage.settled().retries_denied, 2);
}

#[test]
fn what_is_answered_here_allows_no_retry() {
    let worker = Worker::ok();
    let stage = Stage::with(&[&worker], ProxyConfig { retry_share: 1.0, retry_floor: 0.0, ..config() });
    for _ in 0..10 {
        stage.ask(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    }
    assert!(!stage.retries.take(stage.router.time(Instant::now())));
}

#[test]
fn a_stale_connection_is_replaced_without_a_retry() {
    let worker = Worker::ok();
    let stage = Stage::with(&[&worker], ProxyConfig { retry_share: 0.0, retry_floor: 0.0, ..config() });
    for round in 1..4 {
        assert_eq!(stage.ask(post_chat("x")).status(), 200);
        worker.drop_connections();
        assert_eq!(worker.seen().len(), round);
    }
    let stats = stage.settled();
    assert_eq!((stats.worker_connects, stats.retries), (3, [0; 4]));
}

#[test]
fn a_connection_that_breaks_as_the_request_comes_is_replaced_too() {
    let worker = Worker::new(|visit| if visit.seen.turn == 0 { visit.ok("{}") } else { visit.close() });
    let stage = Stage::with(&[&worker], ProxyConfig { retry_share: 0.0, retry_floor: 0.0, ..config() });
    for _ in 0..3 {
        assert_eq!(stage.ask(post_chat("x")).status(), 200);
    }
    let stats = stage.settled();
    assert_eq!((stats.stale_connections, stats.worker_connects, stats.worker_reuses), (2, 3, 2));
    assert_eq!(stats.retries_denied, 0);
}

#[test]
fn what_is_not_http_is_a_502() {
    let bad: [&[u8]; 5] = [
        b"SSH-2.0-OpenSSH_9.7\r\n",
        b"\x16\x03\x01\x00\x00\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
    ];
    for bytes in bad {
        let worker = Worker::new(move |visit| {
            visit.send(bytes);
            visit.closed();
        });
        let stage = Stage::new(&[&worker]);
        let reply = stage.ask(post_chat("x"));
        assert_eq!((reply.status(), &*reply.error_code()), (502, "worker_reply"), "{bytes:?}");
        assert_eq!(stage.settled().refusals[RefusalKind::WorkerGarbage as usize], 1);
    }
}

#[test]
fn a_head_without_end_is_refused() {
    let worker = Worker::new(|visit| {
        visit.send("HTTP/1.1 200 OK\r\n");
        visit.send(format!("x-long: {}\r\n", "y".repeat(1000)).repeat(1000));
        visit.closed();
    });
    let stage = Stage::new(&[&worker]);
    assert_eq!(stage.ask(post_chat("x")).status(), 502);
    stage.settled();
}

#[test]
fn nobody_reachable_is_a_502_and_nobody_there_a_503() {
    let stage = Stage::on(&[nobody(), nobody()], config(), Arc::new(Echo));
    let reply = stage.ask(post_chat("x"));
    assert_eq!((reply.status(), &*reply.error_code()), (502, "worker_unreachable"));
    let reply = Stage::on(&["ftp://nowhere".to_owned()], config(), Arc::new(Echo)).ask(post_chat("x"));
    assert_eq!((reply.status(), &*reply.error_code()), (502, "worker_unreachable"));
    let stage = Stage::new(&[]);
    let reply = stage.ask(post_chat("x"));
    assert_eq!((reply.status(), &*reply.error_code()), (503, "no_eligible_worker"));
    assert!(reply.header("x-request-id").is_some());
    stage.settled();
}

#[test]
fn a_worker_that_does_not_begin_in_time_is_a_504() {
    let worker = Worker::new(|visit| {
        visit.closed();
    });
    let other = Worker::ok();
    let stage = Stage::with(&[&worker, &other], ProxyConfig { request_timeout_ms: 150, ..config() });
    let reply = stage.ask(post_chat("x"));
    assert_eq!((reply.status(), &*reply.error_code()), (504, "worker_timeout"));
    assert_eq!(other.seen().len(), 0);
    assert_eq!(stage.settled().refusals[RefusalKind::WorkerTimeout as usize], 1);
}

#[test]
fn a_stream_that_breaks_ends_with_an_error_event() {
    let half = Arc::new(AtomicBool::new(false));
    let cut_in_event = Arc::clone(&half);
    let worker = Worker::new(move |visit| {
        visit.stream_head();
        visit.chunk("data: {\"choices\":[]}\n\n");
        if cut_in_event.load(Ordering::SeqCst) {
            visit.chunk("data: {\"cho");
        }
        visit.close();
    });
    let stage = Stage::new(&[&worker]);
    for in_event in [false, true] {
        half.store(in_event, Ordering::SeqCst);
        let reply = stage.ask(post_chat("x"));
        assert!(reply.whole);
        let last = reply.text().trim_end().rsplit("\n\n").next().unwrap();
        let error: serde_json::Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(error["error"]["code"], "stream_interrupted");
        assert!(reply.text().starts_with("data: {\"choices\":[]}\n\n"));
    }
    let stats = stage.settled();
    assert_eq!(count(&stats, Kind::ChatCompletions, Ending::Interrupted), 2);
    assert_eq!((stats.retries, stage.router.lock().stats().failed), ([0; 4], 2));
}

#[test]
fn a_stream_that_falls_silent_is_ended() {
    let worker = Worker::new(|visit| {
        visit.stream_head();
        visit.chunk("data: {\"choices\":[]}\n\n");
        visit.closed();
    });
    let stage = Stage::with(&[&worker], ProxyConfig { silence_timeout_ms: 150, ..config() });
    let reply = stage.ask(post_chat("x"));
    assert!(reply.whole && reply.text().contains("sent nothing for too long"), "{}", reply.text());
    assert_eq!(count(&stage.settled(), Kind::ChatCompletions, Ending::Interrupted), 1);
}

#[test]
fn any_other_reply_that_breaks_is_seen_to_be_cut() {
    let worker = Worker::new(|visit| {
        visit.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
        visit.close();
    });
    let chunked = Worker::new(|visit| {
        visit.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n");
        visit.close();
    });
    for worker in [&worker, &chunked] {
        let stage = Stage::new(&[worker]);
        let reply = stage.ask(post_chat("x"));
        assert_eq!((reply.text(), reply.whole), ("half", false));
        // A client of HTTP/1.0 knows no chunks: only a reset tells it.
        let body = chat("x");
        let mut client = stage.client();
        client.send(format!(
            "POST /v1/chat/completions HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert!(client.is_reset());
        assert_eq!(count(&stage.settled(), Kind::ChatCompletions, Ending::Interrupted), 2);
    }
}

#[test]
fn a_reply_that_comes_before_the_body_is_read_passes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let worker = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 64];
        stream.read_exact(&mut head).unwrap();
        stream
            .write_all(b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig")
            .unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
    let stage = Stage::on(&[url], config(), Arc::new(Echo));
    let reply = stage.ask(post_chat(&"x".repeat(20_000_000)));
    assert_eq!((reply.status(), reply.text()), (413, "big"));
    stage.settled();
    worker.join().unwrap();
}
