//! A request's body, read whole.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;

/// Room that is taken for a body before its bytes come: a length that is only announced costs no more.
const FIRST_ROOM: u64 = 4 << 20;

/// Why there is no body.
#[derive(Debug)]
pub(crate) enum BodyFault {
    /// It is longer than the limit.
    TooLarge,
    /// It broke off, or its chunks are malformed.
    Broken,
}

/// Reads `incoming` to its end, within `limit` bytes.
pub(crate) async fn read(mut incoming: Incoming, limit: u64) -> Result<Bytes, BodyFault> {
    let announced = incoming.size_hint().exact();
    if announced.is_some_and(|length| length > limit) {
        return Err(BodyFault::TooLarge);
    }
    let Some(first) = next(&mut incoming).await? else { return Ok(Bytes::new()) };
    if announced == Some(first.len() as u64) {
        return Ok(first);
    }
    let room = announced.unwrap_or(2 * first.len() as u64).min(FIRST_ROOM);
    let mut body = BytesMut::with_capacity(usize::try_from(room).unwrap_or(0));
    body.extend_from_slice(&first);
    drop(first);
    while let Some(chunk) = next(&mut incoming).await? {
        if (body.len() + chunk.len()) as u64 > limit {
            return Err(BodyFault::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    if body.len() as u64 > limit { Err(BodyFault::TooLarge) } else { Ok(body.freeze()) }
}

/// The next bytes; trailers are passed over.
async fn next(incoming: &mut Incoming) -> Result<Option<Bytes>, BodyFault> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *incoming).poll_frame(cx)).await {
            None => return Ok(None),
            Some(Err(_)) => return Err(BodyFault::Broken),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}
