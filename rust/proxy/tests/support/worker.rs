//! A worker whose every byte and moment the test decides.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use super::HANG;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The head, with its empty line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Which connection it came on, and which request on it this is, both from zero.
    pub(crate) connection: usize,
    pub(crate) turn: usize,
}

impl Seen {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

/// The value of the header `name` in `head`.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

/// One request, and the connection to answer it on.
pub(crate) struct Visit {
    pub(crate) seen: Seen,
    stream: TcpStream,
}

impl Visit {
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A proxy that has left is part of some tests.
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// A whole reply with a length.
    pub(crate) fn reply(&mut self, status: &str, headers: &str, body: impl AsRef<[u8]>) {
        let body = body.as_ref();
        let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len());
        self.send([head.as_bytes(), body].concat());
    }

    pub(crate) fn ok(&mut self, body: impl AsRef<[u8]>) {
        self.reply("200 OK", "content-type: application/json\r\n", body);
    }

    /// The head of a stream of events.
    pub(crate) fn stream_head(&mut self) {
        self.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n");
    }

    pub(crate) fn chunk(&mut self, data: &str) {
        self.send(format!("{:x}\r\n{data}\r\n", data.len()));
    }

    /// Waits until the proxy closes the connection, and says when it did.
    pub(crate) fn closed(&mut self) -> Instant {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => Instant::now(),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Instant::now(),
            other => panic!("the proxy did not close: {other:?}"),
        }
    }

    /// Closes the connection at once.
    pub(crate) fn close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

type Script = Box<dyn Fn(&mut Visit) + Send + Sync>;

#[derive(Default)]
struct State {
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    ended: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// A worker.
pub(crate) struct Worker {
    pub(crate) addr: SocketAddr,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

impl Worker {
    /// One that calls `script` for each request.
    pub(crate) fn new(script: impl Fn(&mut Visit) + Send + Sync + 'static) -> Worker {
        Worker::on(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    pub(crate) fn on(listener: TcpListener, script: impl Fn(&mut Visit) + Send + Sync + 'static) -> Worker {
        let addr = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let script: Arc<Script> = Arc::new(Box::new(script));
        let shared = Arc::clone(&state);
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.ended.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.unwrap();
                stream.set_read_timeout(Some(HANG)).unwrap();
                stream.set_nodelay(true).unwrap();
                shared.open.lock().unwrap().push(stream.try_clone().unwrap());
                let (script, shared) = (Arc::clone(&script), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, &script, &shared));
            }
        });
        Worker { addr, state, accepting: Some(accepting) }
    }

    /// One that answers everything at once.
    pub(crate) fn ok() -> Worker {
        Worker::new(|visit| visit.ok(r#"{"ok":true}"#))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// Lets go of the requests so far.
    pub(crate) fn forget(&self) {
        self.state.seen.lock().unwrap().clear();
    }

    /// Closes every connection, as a worker does that ends or lets idle ones go.
    pub(crate) fn drop_connections(&self) {
        for stream in self.state.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        self.drop_connections();
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.addr);
        if let Some(accepting) = self.accepting.take() {
            accepting.join().unwrap();
        }
    }
}

fn serve(mut stream: TcpStream, script: &Script, state: &State) {
    let connection = state.connections.fetch_add(1, Ordering::SeqCst);
    let mut rest = Vec::new();
    for turn in 0.. {
        let Some((head, body)) = read_request(&mut stream, &mut rest) else { return };
        let seen = Seen { head, body, connection, turn };
        state.seen.lock().unwrap().push(seen.clone());
        script(&mut Visit { seen, stream: stream.try_clone().unwrap() });
    }
}

/// Reads a head and a body with a length; nothing where the connection ends before.
fn read_request(stream: &mut TcpStream, rest: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let end = loop {
        if let Some(at) = rest.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if !more(stream, rest) {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&rest.drain(..end).collect::<Vec<_>>()).into_owned();
    let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
    while rest.len() < length {
        if !more(stream, rest) {
            return None;
        }
    }
    Some((head, rest.drain(..length).collect()))
}

fn more(stream: &mut TcpStream, into: &mut Vec<u8>) -> bool {
    let mut bytes = vec![0; 1 << 16];
    match stream.read(&mut bytes) {
        Ok(count) if count > 0 => {
            into.extend_from_slice(&bytes[..count]);
            true
        }
        _ => false,
    }
}
