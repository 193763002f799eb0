//! A client that sends what a test says and sees what comes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Instant;

use super::HANG;
use super::worker::header;

/// A reply as it came.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) head: String,
    /// The body, out of its chunks.
    pub(crate) body: Vec<u8>,
    /// Whether the body was whole; one that ends with the connection always counts as whole.
    pub(crate) whole: bool,
}

impl Reply {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The error's code, and that it has OpenAI's shape.
    pub(crate) fn error_code(&self) -> String {
        let json = self.json();
        let error = json["error"].as_object().unwrap();
        let mut keys: Vec<_> = error.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["code", "message", "param", "type"]);
        assert!(error["message"].as_str().unwrap().len() > 10);
        error["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// A client's connection.
pub(crate) struct Client {
    stream: TcpStream,
    rest: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Client {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, rest: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends as far as the proxy takes it.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Leaves, and says when.
    pub(crate) fn leave(self) -> Instant {
        drop(self.stream);
        Instant::now()
    }

    /// Closes the sending side only.
    pub(crate) fn end_sending(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// The next bytes as they come; none at the end.
    pub(crate) fn some(&mut self) -> Vec<u8> {
        if !self.rest.is_empty() {
            return std::mem::take(&mut self.rest);
        }
        let mut bytes = vec![0; 1 << 16];
        let count = self.read(&mut bytes);
        bytes.truncate(count);
        bytes
    }

    /// Bytes up to and with `end`.
    pub(crate) fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = self.rest.windows(end.len()).position(|window| window == end.as_bytes()) {
                return String::from_utf8(self.rest.drain(..at + end.len()).collect()).unwrap();
            }
            assert!(
                self.more(),
                "the connection ended before {end:?}: {:?}",
                String::from_utf8_lossy(&self.rest)
            );
        }
    }

    /// Whether the proxy has closed the connection, waiting for it.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.rest.is_empty() && !self.more()
    }

    /// Whether the connection ends with a reset.
    pub(crate) fn is_reset(&mut self) -> bool {
        let mut bytes = [0; 1024];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
            }
        }
    }

    /// A reply to anything but HEAD.
    pub(crate) fn reply(&mut self) -> Reply {
        let head = self.until("\r\n\r\n");
        if header(&head, "transfer-encoding").is_some_and(|coding| coding == "chunked") {
            return self.chunked(head);
        }
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = match header(&head, "content-length") {
            Some(length) => length.parse().unwrap(),
            None if status == 204 || status == 304 || status < 200 => 0,
            None => usize::MAX,
        };
        while self.rest.len() < length {
            if !self.more() {
                let body = std::mem::take(&mut self.rest);
                return Reply { head, body, whole: length == usize::MAX };
            }
        }
        Reply { head, body: self.rest.drain(..length).collect(), whole: true }
    }

    fn chunked(&mut self, head: String) -> Reply {
        let mut body = Vec::new();
        loop {
            while !self.rest.windows(2).any(|two| two == b"\r\n") {
                if !self.more() {
                    return Reply { head, body, whole: false };
                }
            }
            let size = usize::from_str_radix(self.until("\r\n").trim_end(), 16).unwrap();
            while self.rest.len() < size + 2 {
                if !self.more() {
                    return Reply { head, body, whole: false };
                }
            }
            body.extend(self.rest.drain(..size + 2).take(size));
            if size == 0 {
                return Reply { head, body, whole: true };
            }
        }
    }

    fn more(&mut self) -> bool {
        let mut bytes = vec![0; 1 << 16];
        let count = self.read(&mut bytes);
        self.rest.extend_from_slice(&bytes[..count]);
        count > 0
    }

    /// A reset counts as the end; a timeout is a hang.
    fn read(&mut self, bytes: &mut [u8]) -> usize {
        match self.stream.read(bytes) {
            Ok(count) => count,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) =>
            {
                0
            }
            Err(error) => panic!("no bytes came: {error}"),
        }
    }
}
