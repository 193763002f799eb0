//! The life of a client's connection.

use std::rc::Rc;

use bytes::Bytes;
use hyper::server::conn::http1::{Builder, Parts};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::serve::serve;
use crate::shard::Shard;
use crate::socket::{Call, Client, Stream};

/// The longest head of a request.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The most headers of a request.
const MAX_HEADERS: usize = 128;

/// A connection in its shard's list, for as long as it is served.
pub(crate) struct Guest {
    shard: Rc<Shard>,
    client: Rc<Client>,
    key: u64,
}

impl Guest {
    /// Takes in a connection; with `last`, it serves one request.
    pub(crate) fn new(shard: Rc<Shard>, socket: TcpStream, last: bool) -> Guest {
        let (key, client) = shard.enter(socket, last);
        Guest { shard, client, key }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.shard.leave(self.key);
    }
}

/// Serves a connection until either side ends it.
pub(crate) async fn connection(guest: Guest) {
    let client = &guest.client;
    let mut builder = Builder::new();
    builder.keep_alive(!client.is_last()).max_headers(MAX_HEADERS).max_header_size(MAX_HEAD_BYTES);
    let serve_from = |ahead: Bytes| {
        let stream = TokioIo::new(Stream::new(Rc::clone(client), ahead));
        let service = service_fn(|request| serve(Rc::clone(&guest.shard), Rc::clone(client), request));
        builder.serve_connection(stream, service)
    };
    let mut serving = serve_from(Bytes::new());
    loop {
        tokio::select! {
            biased;
            result = &mut serving => {
                if client.is_unread() || result.is_err_and(|error| error.is_parse()) {
                    client.swallow().await;
                }
                return;
            }
            // Dropping what serves it drops the request, and with it the connection to the worker.
            () = client.departed() => return,
            call = client.called() => match call {
                Call::Drain => std::pin::Pin::new(&mut serving).graceful_shutdown(),
                Call::Expire => return,
                Call::Shrink if client.is_at_rest() => {
                    let Parts { read_buf, .. } = serving.into_parts();
                    // A copy: even an empty part of the buffer would keep all of it.
                    serving = serve_from(Bytes::copy_from_slice(&read_buf));
                }
                Call::Shrink | Call::None => {}
            },
        }
    }
}
