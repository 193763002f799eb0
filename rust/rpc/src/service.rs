//! The methods of `Router`, from a message's bytes to those of its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use warmroute_core::admit::RetryBudget;
use warmroute_core::load::ledger::Outcome;
use warmroute_core::router::{Lease, Others, SharedRouter};
use warmroute_core::time::Time;
use warmroute_prompt::Prompter;

use crate::asked::{self, Asked};
use crate::failure::Failure;
use crate::leases::{LeaseStats, Leases, Owner, ReservationId, StreamId};
use crate::pb::report_request::Event;
use crate::pb::route_stream_request::Message as Asking;
use crate::pb::route_stream_response::Message as Answer;
use crate::{pb, reply};

/// No model's context is longer, in tokens. A caller's number beyond its worker's context is a fault of the caller, such
/// as -1 in an unsigned field: it must not get into the means of output lengths, nor into the hit rate.
const LONGEST_CONTEXT: u32 = 1 << 24;

/// What bounds the reservations of remote callers.
#[derive(Clone, Copy, Debug)]
pub struct ServiceOptions {
    /// Reservations that may be open at once.
    pub max_reservations: usize,
    /// How long a reservation lasts without a report.
    pub lease_time: Duration,
}

/// Answers messages. Shared by all threads; time and randomness are arguments.
#[derive(Debug)]
pub struct Service {
    router: SharedRouter,
    prompter: Arc<Prompter>,
    pub(crate) retries: Arc<RetryBudget>,
    leases: Mutex<Leases<Lease>>,
    draining: AtomicBool,
    later_attempts: AtomicU64,
}

impl Service {
    /// A service over a router, what reads the prompts of bodies and texts, and what every way in takes its
    /// retries from, in the router's time.
    pub fn new(
        router: SharedRouter,
        prompter: Arc<Prompter>,
        retries: Arc<RetryBudget>,
        options: ServiceOptions,
    ) -> Service {
        Service {
            router,
            prompter,
            retries,
            leases: Mutex::new(Leases::new(options.max_reservations, options.lease_time)),
            draining: AtomicBool::new(false),
            later_attempts: AtomicU64::new(0),
        }
    }

    /// The router that decides.
    pub fn router(&self) -> &SharedRouter {
        &self.router
    }

    /// Takes nothing new from here on; reports are taken.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// The reservations of remote callers.
    pub fn stats(&self) -> LeaseStats {
        self.leases.lock().stats()
    }

    /// Requests that were not their caller's first try.
    pub fn later_attempts(&self) -> u64 {
        self.later_attempts.load(Ordering::Relaxed)
    }

    /// Whether the prompt of a `RouteRequest`, or of a `RouteStreamRequest`, is to be encoded here, and is longer than
    /// `bytes`: it may take milliseconds. What cannot be read takes no time.
    pub fn takes_long(&self, message: &Bytes, bytes: usize, on_stream: bool) -> bool {
        if message.len() <= bytes || !self.prompter.has_tokenizer() {
            return false;
        }
        if !on_stream {
            let request = pb::RouteRequest::decode(message.clone());
            return request.is_ok_and(|request| asked::has_long_text(&request, bytes));
        }
        match pb::RouteStreamRequest::decode(message.clone()).map(|asked| asked.message) {
            Ok(Some(Asking::Route(request))) => asked::has_long_text(&request, bytes),
            _ => false,
        }
    }

    /// Reads a `RouteRequest`.
    ///
    /// # Errors
    /// [`Failure`] for what cannot be read.
    pub fn read_route(&self, message: Bytes) -> Result<Asked, Failure> {
        self.read(&pb::RouteRequest::decode(message)?)
    }

    pub(crate) fn read(&self, request: &pb::RouteRequest) -> Result<Asked, Failure> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(Failure::draining());
        }
        self.later_attempts.fetch_add(u64::from(request.attempt > 1), Ordering::Relaxed);
        Asked::read(request, &self.router, &self.prompter)
    }

    /// Answers a `RouteRequest` that was read, with a `RouteResponse`.
    ///
    /// # Errors
    /// [`Failure`] where no worker takes it, or as many reservations are open as may be.
    pub fn route(&self, asked: &Asked, now: Time, random: u64) -> Result<Vec<u8>, Failure> {
        Ok(self.book(asked, Owner::Caller, now, random)?.encode_to_vec())
    }

    fn book(
        &self,
        asked: &Asked,
        owner: Owner,
        now: Time,
        random: u64,
    ) -> Result<pb::RouteResponse, Failure> {
        let full = {
            let mut leases = self.leases.lock();
            (!leases.has_room()).then(|| leases.open())
        };
        if let Some(open) = full {
            return Err(Failure::too_many_reservations(open));
        }
        let (lease, others) = self.choose(asked, now, random)?;
        let decision = reply::decision(lease.decision(), &others, asked.rung);
        let mut leases = self.leases.lock();
        let lease_time = leases.lease_time();
        match leases.insert(lease, owner, now, random) {
            Ok(id) => Ok(pb::RouteResponse {
                decision: Some(decision),
                reservation: id.0,
                lease_time_ms: if owner == Owner::Caller { reply::millis(lease_time) } else { 0 },
            }),
            Err(lease) => {
                let open = leases.open();
                // Closing takes the router's lock, which no one need wait for here.
                drop(leases);
                drop(lease);
                Err(Failure::too_many_reservations(open))
            }
        }
    }

    pub(crate) fn choose(&self, asked: &Asked, now: Time, random: u64) -> Result<(Lease, Others), Failure> {
        let chosen = self.router.route_among(&asked.request(), now, random, asked.alternatives);
        chosen.map_err(|error| Failure::route(&error, random))
    }

    /// Answers a `ReportRequest` with a `ReportResponse`.
    ///
    /// # Errors
    /// [`Failure`] for an unknown reservation or an outcome that is none.
    pub fn report(&self, message: Bytes, now: Time) -> Result<Vec<u8>, Failure> {
        Ok(self.take_report(&pb::ReportRequest::decode(message)?, now)?.encode_to_vec())
    }

    fn take_report(&self, report: &pb::ReportRequest, now: Time) -> Result<pb::ReportResponse, Failure> {
        let id = ReservationId(report.reservation);
        if let Some(Event::Ended(ended)) = &report.event {
            let outcome = outcome(ended)?;
            let lease = self.leases.lock().remove(id).ok_or_else(Failure::unknown_reservation)?;
            end(lease, ended, outcome);
            return Ok(pb::ReportResponse { lease_time_ms: 0 });
        }
        let mut leases = self.leases.lock();
        let lease_time = leases.lease_time();
        let (lease, owner) = leases.renew(id, now).ok_or_else(Failure::unknown_reservation)?;
        match &report.event {
            Some(Event::FirstToken(_)) => lease.first_token(now),
            Some(Event::Progress(progress)) => {
                if let Some(tokens) = possible(lease, Some(progress.output_tokens)) {
                    lease.progress(tokens);
                }
            }
            Some(Event::Ended(_)) | None => {}
        }
        let timed = owner == Owner::Caller;
        Ok(pb::ReportResponse { lease_time_ms: if timed { reply::millis(lease_time) } else { 0 } })
    }

    /// Opens a stream whose reservations end with it.
    pub fn open_stream(&self) -> StreamId {
        self.leases.lock().open_stream()
    }

    /// Whether a stream has no open reservation.
    pub fn is_empty(&self, stream: StreamId) -> bool {
        self.leases.lock().is_empty(stream)
    }

    /// Ends a stream: its reservations are abandoned. Says how many there were.
    pub fn end_stream(&self, stream: StreamId) -> usize {
        let leases = self.leases.lock().end_stream(stream);
        leases.len()
    }

    /// Answers a `RouteStreamRequest` with a `RouteStreamResponse`.
    pub fn answer(&self, stream: StreamId, message: Bytes, now: Time, random: u64) -> Vec<u8> {
        let (id, answer) = match pb::RouteStreamRequest::decode(message) {
            Ok(pb::RouteStreamRequest { id, message }) => {
                (id, self.answer_one(stream, message.as_ref(), now, random))
            }
            Err(error) => (0, Err(error.into())),
        };
        let message = answer.unwrap_or_else(|failure| Answer::Error((&failure).into()));
        pb::RouteStreamResponse { id, message: Some(message) }.encode_to_vec()
    }

    fn answer_one(
        &self,
        stream: StreamId,
        message: Option<&Asking>,
        now: Time,
        random: u64,
    ) -> Result<Answer, Failure> {
        match message {
            Some(Asking::Route(request)) => {
                let asked = self.read(request)?;
                self.book(&asked, Owner::Stream(stream), now, random).map(Answer::Route)
            }
            Some(Asking::Report(report)) => self.take_report(report, now).map(Answer::Report),
            None => Err(Failure::invalid("message", "the message is empty: set route or report")),
        }
    }

    /// Abandons every reservation whose lease time ran out, and says how many there were.
    pub fn expire(&self, now: Time) -> usize {
        let mut expired = 0;
        // One at a time, so that nobody waits for more than one.
        while let Some(lease) = { self.leases.lock().expire(now) } {
            drop(lease);
            expired += 1;
        }
        expired
    }

    /// Answers a `DecideRequest` with a `DecideResponse`.
    ///
    /// # Errors
    /// [`Failure`] for what cannot be read, and where no worker takes it.
    pub fn decide(&self, message: Bytes, now: Time, random: u64) -> Result<Vec<u8>, Failure> {
        let question = pb::DecideRequest::decode(message)?;
        let asked = self.read(given(question.request.as_ref())?)?;
        let decided = self.router.lock().decide_among(&asked.request(), now, random, asked.alternatives);
        let (decision, others) = decided.map_err(|error| Failure::route(&error, random))?;
        let decision = Some(reply::decision(&decision, &others, asked.rung));
        Ok(pb::DecideResponse { decision }.encode_to_vec())
    }

    /// Answers an `ExplainRequest` with an `ExplainResponse`.
    ///
    /// # Errors
    /// [`Failure`] for what cannot be read.
    pub fn explain(&self, message: Bytes, now: Time, random: u64) -> Result<Vec<u8>, Failure> {
        let question = pb::ExplainRequest::decode(message)?;
        let asked = self.read(given(question.request.as_ref())?)?;
        let explained = self.router.lock().explain(&asked.request(), now, random);
        let (decision, error) = match &explained.decision {
            Ok(decision) => (Some(reply::decision(decision, &Others::default(), asked.rung)), None),
            Err(error) => (None, Some((&Failure::route(error, random)).into())),
        };
        let inexact = asked.refused.map(|refused| refused.as_str().to_owned()).unwrap_or_default();
        let candidates = explained.candidates.iter().map(reply::candidate).collect();
        Ok(pb::ExplainResponse { decision, error, candidates, inexact }.encode_to_vec())
    }
}

pub(crate) fn given(request: Option<&pb::RouteRequest>) -> Result<&pb::RouteRequest, Failure> {
    request.ok_or_else(|| Failure::invalid("request", "there is no request"))
}

fn outcome(ended: &pb::Ended) -> Result<Outcome, Failure> {
    match pb::Outcome::try_from(ended.outcome) {
        Ok(pb::Outcome::Finished) => Ok(Outcome::Finished),
        Ok(pb::Outcome::Failed) => Ok(Outcome::Failed),
        Ok(pb::Outcome::Unreachable) => Ok(Outcome::Unreachable),
        Ok(pb::Outcome::Cancelled) => Ok(Outcome::Cancelled),
        Ok(pb::Outcome::Abandoned) => Ok(Outcome::Abandoned),
        Ok(pb::Outcome::Unspecified) | Err(_) => {
            Err(Failure::invalid("ended.outcome", "the outcome is not given, or is none"))
        }
    }
}

fn end(mut lease: Lease, ended: &pb::Ended, outcome: Outcome) {
    if let Some(tokens) = possible(&lease, ended.output_tokens) {
        lease.progress(tokens);
    }
    if let Some(tokens) = possible(&lease, ended.cached_tokens) {
        lease.cached_tokens(tokens);
    }
    lease.close(outcome);
}

/// The number of tokens, where the worker's context has room for them.
fn possible(lease: &Lease, tokens: Option<u32>) -> Option<u32> {
    let most = lease.decision().worker.spec.max_model_len.unwrap_or(LONGEST_CONTEXT);
    tokens.filter(|tokens| *tokens <= most)
}
