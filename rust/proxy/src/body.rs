//! A request's body, read whole.

use std::cell::Cell;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;

/// Room that is taken for a body before its bytes come: a length that is only announced costs no more.
const FIRST_ROOM: u64 = 1 << 20;

/// Why there is no body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// It is longer than the limit.
    TooLarge,
    /// Others take all the room that there is for bodies.
    NoRoom,
    /// Its chunks are malformed.
    Malformed,
    /// It broke off: the client is gone.
    Cut,
}

/// How many bytes of bodies are held, and may be.
#[derive(Debug)]
pub(crate) struct Room {
    held: Cell<u64>,
    most: u64,
}

impl Room {
    pub(crate) fn new(most: u64) -> Rc<Room> {
        Rc::new(Room { held: Cell::new(0), most })
    }

    #[cfg(test)]
    fn held(&self) -> u64 {
        self.held.get()
    }
}

/// A part of the room, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    room: Rc<Room>,
    bytes: u64,
}

impl Held {
    fn grow(&mut self, bytes: u64) -> Result<(), BodyFault> {
        let held = self.room.held.get() + bytes;
        if held > self.room.most {
            return Err(BodyFault::NoRoom);
        }
        self.room.held.set(held);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.held.set(self.room.held.get() - self.bytes);
    }
}

/// Reads `incoming` to its end, within `limit` bytes and within the `room` that is left.
pub(crate) async fn read(
    mut incoming: Incoming,
    limit: u64,
    room: &Rc<Room>,
) -> Result<(Bytes, Held), BodyFault> {
    let mut held = Held { room: Rc::clone(room), bytes: 0 };
    let announced = incoming.size_hint().exact();
    if announced.is_some_and(|length| length > limit) {
        return Err(BodyFault::TooLarge);
    }
    let Some(first) = next(&mut incoming).await? else { return Ok((Bytes::new(), held)) };
    held.grow(first.len() as u64)?;
    if announced == Some(first.len() as u64) {
        return Ok((first, held));
    }
    let room = announced.unwrap_or(2 * first.len() as u64).min(FIRST_ROOM);
    let mut body = BytesMut::with_capacity(usize::try_from(room).unwrap_or(0));
    body.extend_from_slice(&first);
    drop(first);
    while let Some(chunk) = next(&mut incoming).await? {
        held.grow(chunk.len() as u64)?;
        if (body.len() + chunk.len()) as u64 > limit {
            return Err(BodyFault::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    if body.len() as u64 > limit { Err(BodyFault::TooLarge) } else { Ok((body.freeze(), held)) }
}

/// The next bytes; trailers are passed over.
async fn next(incoming: &mut Incoming) -> Result<Option<Bytes>, BodyFault> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *incoming).poll_frame(cx)).await {
            None => return Ok(None),
            Some(Err(error)) => return Err(fault(&error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

fn fault(error: &hyper::Error) -> BodyFault {
    let kind = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    match kind {
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => BodyFault::Malformed,
        _ => BodyFault::Cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_back() {
        let room = Room::new(10);
        let mut one = Held { room: Rc::clone(&room), bytes: 0 };
        one.grow(6).unwrap();
        let mut other = Held { room: Rc::clone(&room), bytes: 0 };
        assert_eq!(other.grow(5), Err(BodyFault::NoRoom));
        other.grow(4).unwrap();
        drop(one);
        assert_eq!(room.held(), 4);
        drop(other);
        assert_eq!(room.held(), 0);
    }
}
