//! A plain HTTP/1.1 client over a blocking socket.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warmroute_sim::http::{HashTokenizer, SimConfig, SimServer};

/// Long enough that only a hang exceeds it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that takes little real time.
pub(crate) fn fast() -> SimConfig {
    SimConfig { speed: 20.0, ..SimConfig::default() }
}

/// Starts a server.
pub(crate) fn start(config: SimConfig) -> SimServer {
    SimServer::start(config, Arc::new(HashTokenizer)).unwrap()
}

/// A chat of a few hundred tokens, with more fields.
pub(crate) fn chat_body(more: &Value) -> String {
    let mut body = json!({"messages": [
        {"role": "system", "content": "You answer questions about ledgers. ".repeat(40)},
        {"role": "user", "content": "What is booked?"},
    ]});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body.to_string()
}

/// Waits for a condition that another thread brings about.
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "it never came about");
        std::thread::yield_now();
    }
}

pub(crate) struct Client(BufReader<TcpStream>);

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(server: &SimServer) -> Client {
        let socket = TcpStream::connect(server.addr()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(socket))
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.send("GET", path, &[], "");
        self.read()
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Reply {
        self.send("POST", path, &[], body);
        self.read()
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: sim\r\ncontent-length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        // A server that refuses a long body may close before all of it is sent.
        let _sent = self.0.get_mut().write_all(format!("{head}\r\n{body}").as_bytes());
    }

    pub(crate) fn read(&mut self) -> Reply {
        let mut reply = self.read_head();
        if reply.header("transfer-encoding") == Some("chunked") {
            reply.body = self.read_chunks();
        } else {
            let length = reply.header("content-length").unwrap().parse().unwrap();
            reply.body = vec![0; length];
            self.0.read_exact(&mut reply.body).unwrap();
        }
        reply
    }

    pub(crate) fn read_head(&mut self) -> Reply {
        let status = self.line().split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Reply { status, headers, body: Vec::new() }
    }

    pub(crate) fn read_rest(&mut self) -> Vec<u8> {
        self.read_chunks()
    }

    /// The first `bytes` bytes of what comes.
    pub(crate) fn read_some(&mut self, bytes: usize) -> Vec<u8> {
        let mut some = vec![0; bytes];
        self.0.read_exact(&mut some).unwrap();
        some
    }

    /// What comes until the server closes the connection.
    pub(crate) fn read_until_closed(&mut self) -> String {
        let mut rest = String::new();
        // A reset connection is closed, too.
        let _closed = self.0.read_to_string(&mut rest);
        rest
    }

    /// The value of a metric's first sample.
    pub(crate) fn metric(&mut self, name: &str) -> f64 {
        let page = self.get("/metrics").text();
        let sample = page.lines().find(|line| line.starts_with(&format!("{name}{{"))).expect(name);
        sample.rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn read_chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line(), 16).unwrap();
            let start = body.len();
            body.resize(start + length, 0);
            self.0.read_exact(&mut body[start..]).unwrap();
            self.line();
            if length == 0 {
                return body;
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.0 == name).map(|header| header.1.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The server-sent events, without the `[DONE]` that must come last.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = self.text();
        let mut events: Vec<_> = text.split("\n\n").map(str::to_owned).collect();
        assert_eq!((events.pop().as_deref(), events.pop().as_deref()), (Some(""), Some("data: [DONE]")));
        events
            .iter()
            .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
            .collect()
    }
}
