//! What reaches the worker, and what comes back.

mod support;

use std::sync::Arc;

use support::{Client, Echo, Stage, Worker, chat, count, post, post_chat};
use warmroute_prompt::{LoadOptions, Prompter};
use warmroute_proxy::{Ending, Kind, ProxyConfig};

const PATH: &str = "/v1/chat/completions";

#[test]
fn the_workers_bytes_are_the_clients() {
    let worker = Worker::ok();
    let stage = Stage::new(&[&worker]);
    let bodies = [
        r#"{ "messages" : [ ] , "temperature":0.30000000000000004, "unknown": {"b":1,"a":[1e400, -0.0]}, "a":1,"a":2, "model":"m"}"#.to_owned(),
        "{\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9 \\ud800 é 😀\\n\"}]}\r\n \n".to_owned(),
        format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, "long ".repeat(6_000_000)),
    ];
    for body in &bodies {
        let reply = stage.ask(post(PATH, body));
        assert_eq!((reply.status(), reply.text()), (200, r#"{"ok":true}"#));
        assert!(worker.seen().pop().unwrap().body == body.as_bytes(), "{} bytes", body.len());
    }
    let stats = stage.settled();
    assert_eq!(count(&stats, Kind::ChatCompletions, Ending::Success), 3);
    assert_eq!(stats.bytes_received, bodies.iter().map(|body| body.len() as u64).sum::<u64>());
}

#[test]
fn a_body_in_pieces_or_in_chunks_arrives_whole() {
    let worker = Worker::ok();
    let stage = Stage::new(&[&worker]);
    let body = chat(&"piece ".repeat(40_000));
    let request = post(PATH, &body);
    let mut client = stage.client();
    request.chunks(70_001).for_each(|piece| client.send(piece));
    assert_eq!(client.reply().status(), 200);
    client.send(format!("POST {PATH} HTTP/1.1\r\nhost: r\r\ntransfer-encoding: chunked\r\n\r\n"));
    for piece in body.as_bytes().chunks(30_000) {
        client.send(format!("{:x};extension=1\r\n", piece.len()));
        client.send(piece);
        client.send("\r\n");
    }
    client.send("0\r\nx-trailer: 1\r\n\r\n");
    assert_eq!(client.reply().status(), 200);
    let seen = worker.seen();
    assert!(seen.iter().all(|seen| seen.body == body.as_bytes()));
    assert_eq!(seen[1].header("transfer-encoding"), None);
    assert_eq!(seen[1].header("content-length"), Some(&*body.len().to_string()));
}

#[test]
fn headers_go_on_but_for_those_of_the_connection() {
    let worker = Worker::new(|visit| {
        visit.reply(
            "201 Created",
            "x-worker: a\r\nx-worker: b\r\nkeep-alive: timeout=5\r\nconnection: x-private\r\nx-private: 1\r\nserver: uvicorn\r\n",
            "{}",
        );
    });
    let stage = Stage::new(&[&worker]);
    let body = chat("hello");
    let reply = stage.ask(format!(
        "POST {PATH}?a=b%20c&d HTTP/1.1\r\nhost: router.example\r\nauthorization: Bearer secret\r\nx-request-id: mine\r\n\
         connection: keep-alive, X-Named\r\nx-named: 1\r\nte: trailers\r\nupgrade: h2c\r\nproxy-authorization: x\r\n\
         X-Double: 1\r\nx-double: 2\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(reply.status(), 201);
    assert!(reply.head.starts_with("HTTP/1.1 201 Created\r\n"));
    assert_eq!(reply.head.matches("x-worker: ").count(), 2);
    assert_eq!(reply.header("server"), Some("uvicorn"));
    assert_eq!((reply.header("keep-alive"), reply.header("x-private")), (None, None));
    assert_eq!(reply.header("x-request-id"), Some("mine"));
    assert_eq!(reply.header("x-warmroute-worker"), Some("w0"));
    assert_eq!(reply.header("x-warmroute-overlap-tokens"), Some("0"));
    assert_eq!(reply.header("x-warmroute-rung"), Some("text"));
    let seen = worker.seen().pop().unwrap();
    assert_eq!(seen.line(), format!("POST {PATH}?a=b%20c&d HTTP/1.1"));
    assert_eq!(seen.header("host"), Some(&*worker.addr.to_string()));
    assert_eq!(seen.header("authorization"), Some("Bearer secret"));
    assert_eq!(seen.header("x-request-id"), Some("mine"));
    assert_eq!(seen.head.matches("x-double: ").count(), 2);
    for gone in ["connection", "x-named", "te", "upgrade", "proxy-authorization", "expect"] {
        assert_eq!(seen.header(gone), None, "{gone}");
    }
}

#[test]
fn a_request_without_an_id_gets_one() {
    let worker = Worker::ok();
    let stage = Stage::new(&[&worker]);
    let ids: Vec<_> =
        (0..2).map(|_| stage.ask(post_chat("x")).header("x-request-id").unwrap().to_owned()).collect();
    assert_eq!(ids[0].len(), 32);
    assert_ne!(ids[0], ids[1]);
    let seen = worker.seen();
    assert_eq!(seen.iter().map(|seen| seen.header("x-request-id").unwrap()).collect::<Vec<_>>(), ids);
}

#[test]
fn chunks_come_one_by_one() {
    let (step, steps) = std::sync::mpsc::channel::<()>();
    let steps = std::sync::Mutex::new(steps);
    let worker = Worker::new(move |visit| {
        visit.stream_head();
        for index in 0..5 {
            steps.lock().unwrap().recv().unwrap();
            visit.chunk(&format!("data: {index}\n\n"));
        }
        steps.lock().unwrap().recv().unwrap();
        visit.send("0\r\n\r\n");
    });
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    client.send(post_chat("stream"));
    // The head comes before the worker has anything to say.
    assert!(client.until("\r\n\r\n").contains("text/event-stream; charset=utf-8"));
    for index in 0..5 {
        step.send(()).unwrap();
        assert_eq!(client.until("\n\n\r\n"), format!("9\r\ndata: {index}\n\n\r\n"));
    }
    step.send(()).unwrap();
    assert_eq!(client.until("\r\n\r\n"), "0\r\n\r\n");
    let stats = stage.settled();
    assert_eq!(stats.ttft.count(), 1);
    assert_eq!(count(&stats, Kind::ChatCompletions, Ending::Success), 1);
}

#[test]
fn connections_are_kept_on_both_sides() {
    let worker = Worker::ok();
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    for _ in 0..20 {
        client.send(post_chat("again"));
        assert_eq!(client.reply().status(), 200);
    }
    let seen = worker.seen();
    assert!(seen.iter().all(|seen| seen.connection == 0));
    assert_eq!(seen[19].turn, 19);
    let stats = stage.settled();
    assert_eq!((stats.connections, stats.worker_connects, stats.worker_reuses), (1, 1, 19));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let worker = Worker::new(|visit| {
        let body = visit.seen.body.clone();
        visit.ok(body);
    });
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    let all: Vec<_> = (0..10).map(|index| post_chat(&format!("number {index}"))).collect();
    client.send(all.concat());
    for index in 0..10 {
        assert_eq!(client.reply().text(), chat(&format!("number {index}")));
    }
}

#[test]
fn every_kind_of_request_passes() {
    let worker = Worker::new(|visit| match visit.seen.line().split(' ').next().unwrap() {
        "HEAD" => visit.send("HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n"),
        "DELETE" => visit.send("HTTP/1.1 204 No Content\r\n\r\n"),
        _ => visit.ok("{}"),
    });
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    for line in ["GET /v1/models/m", "OPTIONS /v1/chat/completions", "GET /v1/chat/completions"] {
        client.send(format!("{line} HTTP/1.1\r\nhost: r\r\n\r\n"));
        let reply = client.reply();
        assert_eq!((reply.status(), reply.header("x-warmroute-rung")), (200, Some("load_only")), "{line}");
    }
    client.send("HEAD /v1/models/m HTTP/1.1\r\nhost: r\r\n\r\n");
    let head = client.until("\r\n\r\n");
    assert!(head.contains("content-length: 1234\r\n"), "{head}");
    client.send("DELETE /v1/responses/r1 HTTP/1.1\r\nhost: r\r\n\r\n");
    assert_eq!(client.reply().status(), 204);
    client.send(post("/v1/embeddings", b"\xff\x00 not json"));
    assert_eq!(client.reply().status(), 200);
    client.send("POST /v1/load_lora_adapter HTTP/1.1\r\nhost: r\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(client.reply().status(), 200);
    let seen = worker.seen();
    assert_eq!(seen.last().unwrap().header("content-length"), Some("0"));
    assert_eq!(seen[0].header("content-length"), None);
    assert_eq!(seen[5].body, b"\xff\x00 not json");
    // One connection to the worker served them all: none was left in the middle of a reply.
    assert!(seen.iter().all(|seen| seen.connection == 0));
    let stats = stage.settled();
    assert_eq!(count(&stats, Kind::Other, Ending::Success), 5);
    assert_eq!(count(&stats, Kind::ChatCompletions, Ending::Success), 2);
}

#[test]
fn a_client_of_http_1_0_gets_its_reply_and_the_end() {
    let worker = Worker::new(|visit| {
        visit.stream_head();
        visit.chunk("data: 1\n\n");
        visit.send("0\r\n\r\n");
    });
    let stage = Stage::new(&[&worker]);
    let body = chat("old");
    let mut client = stage.client();
    client.send(format!("POST {PATH} HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    let reply = client.reply();
    assert_eq!((reply.status(), reply.text()), (200, "data: 1\n\n"));
    assert!(client.is_closed());
    assert!(worker.seen()[0].line().ends_with("HTTP/1.1"));
}

#[test]
fn expect_100_continue_is_answered_here() {
    let worker = Worker::ok();
    let stage =
        Stage::with(&[&worker], ProxyConfig { threads: 1, body_limit_bytes: 2000, ..ProxyConfig::default() });
    let body = chat("continue");
    let ask = |client: &mut Client, length| {
        client.send(format!(
            "POST {PATH} HTTP/1.1\r\nhost: r\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        ));
        client.until("\r\n\r\n")
    };
    let mut client = stage.client();
    assert_eq!(ask(&mut client, body.len()), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send(&body);
    assert_eq!(client.reply().status(), 200);
    assert_eq!(worker.seen()[0].header("expect"), None);
    let refused = ask(&mut stage.client(), 2001);
    assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
    assert_eq!(worker.seen().len(), 1);
}

#[test]
fn a_reply_without_length_or_chunks_ends_with_its_connection() {
    let worker = Worker::new(|visit| {
        visit.send("HTTP/1.1 200 OK\r\n\r\nuntil the end");
        visit.close();
    });
    let stage = Stage::new(&[&worker]);
    let reply = stage.ask(post_chat("x"));
    assert_eq!((reply.text(), reply.whole), ("until the end", true));
}

#[test]
fn a_worker_may_close_after_each_reply() {
    let worker = Worker::new(|visit| {
        visit.reply("200 OK", "connection: close\r\n", "{}");
        visit.close();
    });
    let stage = Stage::new(&[&worker]);
    let mut client = stage.client();
    for _ in 0..5 {
        client.send(post_chat("x"));
        let reply = client.reply();
        assert_eq!((reply.status(), reply.header("connection")), (200, None));
    }
    assert_eq!(stage.settled().stale_connections, 0);
}

#[test]
fn usage_at_the_end_of_a_reply_is_learnt() {
    let usage =
        r#""usage":{"prompt_tokens":64,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":48}}}"#;
    let worker = Worker::new(move |visit| visit.ok(format!(r#"{{"choices":[],{usage}"#)));
    let stage = Stage::new(&[&worker]);
    stage.ask(post_chat("x"));
    stage.settled();
    let stats = stage.router.lock().stats();
    assert_eq!((stats.finished, stats.reported, stats.reported_cached_tokens), (1, 1, 48));
}

#[test]
fn exact_prompts_are_encoded_here_or_on_another_thread() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/warmroute/data/tokenizer");
    let prompter = Prompter::load(&folder, &LoadOptions::default()).unwrap();
    let worker = Worker::ok();
    let config = ProxyConfig { threads: 1, ..ProxyConfig::default() };
    let stage = Stage::start(&[worker.url()], config, prompter, Arc::new(Echo));
    for words in [10, 20_000] {
        let request = post_chat(&"ledger ".repeat(words));
        let overlaps: Vec<usize> = (0..2)
            .map(|_| {
                let reply = stage.ask(&request);
                assert_eq!((reply.status(), reply.header("x-warmroute-rung")), (200, Some("local")));
                reply.header("x-warmroute-overlap-tokens").unwrap().parse().unwrap()
            })
            .collect();
        assert!(overlaps[0] <= 64 && overlaps[1] + 32 > words, "{words}: {overlaps:?}");
    }
    let reply = stage.ask(post(PATH, "{".repeat(100_000)));
    assert_eq!(reply.status(), 400);
    stage.settled();
}
