//! What idle connections hold on to. A file of its own: the memory of the process is measured.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use support::{Client, Stage, Worker, post_chat};

/// Connections of one group.
const GROUP: usize = 200;

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn idle_connections_do_not_keep_the_room_of_their_largest_request() {
    let worker = Worker::ok();
    let stage = Stage::new(&[&worker]);
    let request = post_chat(&"x".repeat(120_000));
    let group = || -> Vec<Client> {
        let mut clients: Vec<_> = (0..GROUP).map(|_| stage.client()).collect();
        // hyper's buffer doubles with each request that fills it.
        for client in std::iter::repeat_n((), 4).flat_map(|()| 0..GROUP) {
            clients[client].send(&request);
            assert_eq!(clients[client].reply().status(), 200);
        }
        worker.forget();
        // Nothing outside shows when a connection has been idle for long enough.
        std::thread::sleep(Duration::from_millis(2_500));
        clients
    };
    let _first = group();
    let before = resident_bytes();
    let _more = [group(), group()];
    let grown = resident_bytes().saturating_sub(before);
    // 128 KiB for each of 400 connections would be 52 MB.
    assert!(grown < 26_000_000, "{grown} bytes more");
}
