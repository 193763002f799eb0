//! A client that leaves: in every phase the worker's connection is closed at once, and the load goes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use support::worker::Visit;
use support::{Stage, Worker, count, post_chat};
use warmroute_proxy::{Ending, Kind, Phase, ProxyStats};

/// What the worker's engine gets to abort the request.
const AT_ONCE: Duration = Duration::from_millis(100);

/// One at a time: these tests measure time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A worker that says when it has done `begin`, and when its connection was closed after that.
fn worker(begin: fn(&mut Visit)) -> (Worker, Receiver<Instant>, Receiver<Instant>) {
    let (begun, is_begun): (Sender<Instant>, _) = channel();
    let (closed, is_closed) = channel();
    let senders = Mutex::new((begun, closed));
    let worker = Worker::new(move |visit| {
        begin(visit);
        let (begun, closed) = senders.lock().unwrap().clone();
        begun.send(Instant::now()).unwrap();
        closed.send(visit.closed()).unwrap();
    });
    (worker, is_begun, is_closed)
}

fn assert_closed_at_once(left: Instant, closed: &Receiver<Instant>) {
    let took =
        closed.recv_timeout(support::HANG).expect("the worker's connection stays open").duration_since(left);
    assert!(took < AT_ONCE, "closed after {took:?}");
}

fn assert_departed(stage: &Stage, phase: Phase) -> ProxyStats {
    let stats = stage.settled();
    assert_eq!(stats.departures[phase as usize], 1, "{stats:?}");
    assert_eq!(count(&stats, Kind::ChatCompletions, Ending::Departed), 1);
    stats
}

#[test]
fn before_the_head() {
    let _alone = alone();
    let (worker, begun, closed) = worker(|_| {});
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    client.send(post_chat("x"));
    begun.recv().unwrap();
    assert_closed_at_once(client.leave(), &closed);
    assert_departed(&stage, Phase::Head);
    assert_eq!(stage.router.lock().stats().cancelled, 1);
}

#[test]
fn before_the_head_with_the_next_request_already_sent() {
    let _alone = alone();
    let (worker, begun, closed) = worker(|_| {});
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    client.send([post_chat("x"), post_chat("y")].concat());
    begun.recv().unwrap();
    assert_closed_at_once(client.leave(), &closed);
    assert_departed(&stage, Phase::Head);
    assert_eq!(worker.seen().len(), 1);
}

#[test]
fn before_the_head_with_part_of_the_next_request_sent_later() {
    let _alone = alone();
    let (worker, begun, closed) = worker(|_| {});
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    client.send(post_chat("x"));
    begun.recv().unwrap();
    client.send("POST /v1/chat");
    // Until the proxy has read the piece, a departure could be noticed by reading on.
    std::thread::sleep(Duration::from_millis(20));
    assert_closed_at_once(client.leave(), &closed);
    assert_departed(&stage, Phase::Head);
}

#[test]
fn before_the_head_of_a_later_request() {
    let _alone = alone();
    let (closed, is_closed) = channel();
    let closed = Mutex::new(closed);
    let worker = Worker::new(move |visit| match visit.seen.turn {
        0..3 => visit.ok("{}"),
        _ => closed.lock().unwrap().send(visit.closed()).unwrap(),
    });
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    for _ in 0..3 {
        client.send(post_chat("x"));
        assert_eq!(client.reply().status(), 200);
    }
    client.send(post_chat("x"));
    stage.until("the worker's turn", |_| worker.seen().len() == 4);
    assert_closed_at_once(client.leave(), &is_closed);
    assert_departed(&stage, Phase::Head);
}

#[test]
fn between_the_head_and_the_first_byte() {
    let _alone = alone();
    let (worker, begun, closed) = worker(Visit::stream_head);
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    client.send(post_chat("x"));
    begun.recv().unwrap();
    client.until("\r\n\r\n");
    assert_closed_at_once(client.leave(), &closed);
    assert_departed(&stage, Phase::FirstByte);
}

#[test]
fn in_the_middle_of_a_stream() {
    let _alone = alone();
    let (worker, begun, closed) = worker(|visit| {
        visit.stream_head();
        visit.chunk("data: 1\n\n");
    });
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    client.send(post_chat("x"));
    begun.recv().unwrap();
    client.until("data: 1\n\n");
    assert_closed_at_once(client.leave(), &closed);
    assert_departed(&stage, Phase::Stream);
}

#[test]
fn in_the_middle_of_a_reply_that_it_does_not_read() {
    let _alone = alone();
    let (worker, begun, closed) = worker(|visit| {
        visit.send("HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n");
        visit.send(vec![b'x'; 4_000_000]);
    });
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    client.send(post_chat("x"));
    // The worker is stuck until someone reads: the proxy's buffers and the sockets' are full.
    let _ = begun.recv_timeout(Duration::from_millis(200));
    let left = client.leave();
    assert_closed_at_once(left, &closed);
    assert_departed(&stage, Phase::Stream);
}

#[test]
fn while_it_sends_its_body() {
    let _alone = alone();
    let worker = Worker::ok();
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    let request = post_chat(&"x".repeat(100_000));
    client.send(&request[..60_000]);
    stage.until("the request", |stats| stats.requests_open == 1);
    let left = client.leave();
    assert_departed(&stage, Phase::Body);
    assert!(left.elapsed() < AT_ONCE);
    assert_eq!(worker.seen().len(), 0);
}

#[test]
fn by_closing_its_sending_side() {
    let _alone = alone();
    let (worker, begun, closed) = worker(|_| {});
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    client.send(post_chat("x"));
    begun.recv().unwrap();
    client.end_sending();
    assert_closed_at_once(Instant::now(), &closed);
    assert_departed(&stage, Phase::Head);
}

#[test]
fn many_at_once_leave_no_load() {
    let _alone = alone();
    let (worker, begun, closed) = worker(|visit| {
        if visit.seen.connection % 3 > 0 {
            visit.stream_head();
        }
        if visit.seen.connection % 3 > 1 {
            visit.chunk("data: 1\n\n");
        }
    });
    let stage = Stage::new(&[&worker]);
    let clients: Vec<_> = (0..60)
        .map(|_| {
            let mut client = stage.client();
            client.send(post_chat("x"));
            client
        })
        .collect();
    for _ in &clients {
        begun.recv().unwrap();
    }
    assert_eq!(stage.router.lock().stats().open, 60);
    for client in clients {
        client.leave();
    }
    for _ in 0..60 {
        closed.recv_timeout(support::HANG).unwrap();
    }
    let stats = stage.settled();
    assert_eq!(count(&stats, Kind::ChatCompletions, Ending::Departed), 60);
    assert_eq!(stage.router.lock().stats().cancelled, 60);
    stage.until("connections", |stats| stats.connections_open == 0);
}
