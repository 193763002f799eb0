//! Whatever comes from clients or workers: no panic, no hang, nothing left over.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use support::{Stage, Worker, post_chat};
use warmroute_proxy::ProxyConfig;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics of the proxy's threads, which would end one connection and be seen by nobody.
fn watch_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name().is_some_and(|name| name.starts_with("warmroute-")) {
            PANICS.fetch_add(1, Ordering::SeqCst);
        }
        before(info);
    }));
}

/// `bytes` with some of them changed, left out, doubled or cut.
fn mutate(rng: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..bytes.len());
        match rng.u8(..6) {
            0 => bytes[at] = rng.u8(..),
            1 => bytes.insert(at, *rng.choice(b"\r\n:;, \0\xff0{[\"").unwrap()),
            2 => drop(bytes.remove(at)),
            3 => bytes.truncate(at + 1),
            4 => bytes = [&bytes[..at], &bytes].concat(),
            _ => drop(bytes.drain(at..(at + rng.usize(..20)).min(bytes.len()))),
        }
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
    }
    bytes
}

const CHUNKED: &[u8] = b"POST /v1/completions?x=1 HTTP/1.1\r\nhost: r\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
    9\r\n{\"prompt\"\r\n5;e=1\r\n:[1]}\r\n0\r\nx-t: 1\r\n\r\n";

const REPLIES: [&[u8]; 4] = [
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{\"hello\": 42}",
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
];

#[test]
fn nothing_stops_it() {
    watch_panics();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let replies = Arc::new(Mutex::new(Rng::with_seed(seed)));
    let broken = Worker::new(move |visit| {
        let mut rng = replies.lock().unwrap();
        let reply = rng.choice(REPLIES).unwrap();
        let reply = mutate(&mut rng, reply);
        drop(rng);
        visit.send(reply);
        visit.close();
    });
    // A request that is cut waits for its rest: the timeouts end it.
    let config = ProxyConfig {
        threads: 2,
        retry_share: 1.0,
        head_timeout_ms: 100,
        body_timeout_ms: 100,
        idle_timeout_ms: 100,
        ..ProxyConfig::default()
    };
    let stage = Stage::with(&[&broken, &broken], config);
    let requests =
        [post_chat("hello"), CHUNKED.to_vec(), b"GET /v1/models HTTP/1.1\r\nhost: r\r\n\r\n".to_vec()];
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (stage, requests) = (&stage, &requests);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed ^ thread);
                for _ in 0..40 {
                    let mut client = stage.client();
                    let request = rng.choice(requests).unwrap().clone();
                    let request = if rng.bool() { mutate(&mut rng, &request) } else { request };
                    client.try_send(&request);
                    while !client.some().is_empty() {}
                }
            });
        }
    });
    stage.settled();
    stage.until("connections", |stats| stats.connections_open == 0);
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
    assert_eq!(stage.ask("GET /healthz HTTP/1.1\r\nhost: r\r\n\r\n").status(), 200);
}
