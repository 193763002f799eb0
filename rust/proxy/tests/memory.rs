//! What idle connections hold on to. A file of its own: the memory of the process is measured.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use support::{Client, Stage, Worker, post_chat};

/// Connections of one group.
const GROUP: usize = 200;
/// More than a group takes that finds the room of those before it, and half of what its buffers take: 128 KiB each.
const MUCH: usize = 13_000_000;

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
    // A busy machine gives room back later, so that the next group still needs its own; where none is given back,
    // every group does. All of them stay open.
    let mut groups = vec![group()];
    let mut grown = Vec::new();
    while grown.last().is_none_or(|last| *last > MUCH) {
        assert!(grown.len() < 5, "bytes that each group took: {grown:?}");
        let before = resident_bytes();
        groups.push(group());
        grown.push(resident_bytes().saturating_sub(before));
    }
}
