//! A request that is handed over: what its worker is sent, and the worker's events as messages.

mod body;
mod events;

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use warmroute_core::fleet::{Worker, WorkerState};
use warmroute_core::ids::WorkerId;
use warmroute_core::load::ledger::Outcome;
use warmroute_core::router::{Lease, Others};
use warmroute_core::time::Time;

use crate::asked::Asked;
use crate::failure::Failure;
use crate::generate::events::{Event, Events, Tokens};
use crate::pb::generate_response::Event as Part;
use crate::service::{Service, given};
use crate::{pb, reply};

/// How a worker's reply stands after some of its bytes were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to come.
    Open,
    /// It is complete.
    Complete,
    /// The worker said that it failed, or sent what is no event.
    Broken(String),
}

/// What came of the wish to try another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Another {
    /// It is booked in place of the first.
    Booked,
    /// Nobody else takes the request; the first stays booked.
    Nobody,
    /// The budget has no retry; the first stays booked.
    Denied,
}

/// A request on its way. Dropped, it counts as cancelled: whoever asked is gone.
#[derive(Debug)]
pub struct Generation {
    asked: Asked,
    path: &'static str,
    body: Bytes,
    request_id: String,
    attempt: u32,
    booked: Option<Booked>,
    events: Events,
    usage: Option<pb::Usage>,
    output_tokens: u32,
}

#[derive(Debug)]
struct Booked {
    lease: Lease,
    others: Others,
}

impl Generation {
    /// Reads a `GenerateRequest`. `request_id` names it where the caller does not.
    ///
    /// # Errors
    /// [`Failure`] for what cannot be read or cannot be generated from.
    pub fn read(service: &Service, message: Bytes, request_id: String) -> Result<Generation, Failure> {
        let generate = pb::GenerateRequest::decode(message)?;
        let request = given(generate.request.as_ref())?;
        let (path, body) = body::of(request, generate.sampling.as_ref(), generate.return_token_ids)?;
        let named = !request.request_id.is_empty();
        Ok(Generation {
            asked: service.read(request)?,
            path,
            body,
            request_id: if named { request.request_id.clone() } else { request_id },
            attempt: 0,
            booked: None,
            events: Events::default(),
            usage: None,
            output_tokens: 0,
        })
    }

    /// Chooses a worker and books it.
    ///
    /// # Errors
    /// [`Failure`] where no worker takes it.
    pub fn book(&mut self, service: &Service, now: Time, random: u64) -> Result<(), Failure> {
        let (lease, others) = service.choose(&self.asked, now, random)?;
        // One that is refused earns no retry.
        service.retries.request(now);
        self.attempt += 1;
        self.booked = Some(Booked { lease, others });
        Ok(())
    }

    /// Chooses another worker after `outcome` at the first.
    ///
    /// `free` says that no connection could be had, so that nobody did any work: then trying another worker adds
    /// none, and takes nothing from the budget.
    pub fn book_another(
        &mut self,
        service: &Service,
        outcome: Outcome,
        free: bool,
        now: Time,
        random: u64,
    ) -> Another {
        let Some(tried) = self.tried(service) else { return Another::Nobody };
        if !free && !service.retries.take(now) {
            return Another::Denied;
        }
        self.asked.avoid.extend(tried);
        let Ok((lease, others)) = service.choose(&self.asked, now, random) else { return Another::Nobody };
        self.close(outcome);
        self.attempt += 1;
        self.booked = Some(Booked { lease, others });
        Another::Booked
    }

    /// The first worker and those at the same address; nothing where nobody else is ready.
    fn tried(&self, service: &Service) -> Option<Vec<WorkerId>> {
        let first = self.worker()?;
        let (mut tried, mut others) = (vec![first.id], false);
        for (worker, state) in service.router().lock().fleet().iter() {
            if worker.spec.url == first.spec.url {
                tried.push(worker.id);
            } else {
                others |= state == WorkerState::Ready;
            }
        }
        others.then_some(tried)
    }

    /// The worker that is booked.
    pub fn worker(&self) -> Option<&Arc<Worker>> {
        self.booked.as_ref().map(|booked| &booked.lease.decision().worker)
    }

    /// The path at the worker.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The body for the worker.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The request's name.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// The message that says which worker answers; nothing where none is booked.
    pub fn routed(&self) -> Option<Vec<u8>> {
        let Booked { lease, others } = self.booked.as_ref()?;
        let routed = pb::Routed {
            decision: Some(reply::decision(lease.decision(), others, self.asked.rung)),
            request_id: self.request_id.clone(),
            attempt: self.attempt,
        };
        Some(message(Part::Routed(routed)))
    }

    /// Takes in bytes of the worker's reply, and gives the messages that they make.
    pub fn feed(&mut self, bytes: &[u8], now: Time) -> (Vec<Vec<u8>>, Progress) {
        let mut messages = Vec::new();
        let mut progress = Progress::Open;
        let (mut began, before) = (false, self.output_tokens);
        let Generation { events, usage, output_tokens, .. } = self;
        events.feed(bytes, |event| match event {
            Event::Chunk(chunk, tokens) => {
                began = true;
                *output_tokens = output_tokens.saturating_add(match tokens {
                    Tokens::Known(count) => count,
                    // As workers stream it, an event has a token.
                    Tokens::Unknown => u32::from(!chunk.text.is_empty()),
                });
                if chunk != (pb::Chunk { choice: chunk.choice, ..pb::Chunk::default() }) {
                    messages.push(message(Part::Chunk(chunk)));
                }
            }
            Event::Usage(counted) => *usage = Some(counted),
            Event::Done => progress = Progress::Complete,
            Event::Broken(why) => progress = Progress::Broken(why),
        });
        if let Some(Booked { lease, .. }) = &self.booked {
            if began {
                lease.first_token(now);
            }
            if self.output_tokens > before {
                lease.progress(self.output_tokens);
            }
        }
        if progress == Progress::Complete {
            messages.push(message(Part::Finished(pb::Finished { usage: self.usage })));
            self.finish();
        }
        (messages, progress)
    }

    fn finish(&mut self) {
        if let (Some(Booked { lease, .. }), Some(usage)) = (&self.booked, &self.usage) {
            lease.progress(usage.completion_tokens);
            if let Some(cached) = usage.cached_tokens {
                lease.cached_tokens(cached);
            }
        }
        self.close(Outcome::Finished);
    }

    /// Ends the booking, if it is open.
    pub fn close(&mut self, outcome: Outcome) {
        if let Some(mut booked) = self.booked.take() {
            booked.lease.close(outcome);
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.close(Outcome::Cancelled);
    }
}

fn message(part: Part) -> Vec<u8> {
    pb::GenerateResponse { event: Some(part) }.encode_to_vec()
}
