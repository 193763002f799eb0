//! Messages and their answers, without gRPC: whatever the bytes are, no load is left behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use warmroute_core::admit::RetryBudget;
use warmroute_core::config::RouterConfig;
use warmroute_core::fleet::WorkerSpec;
use warmroute_core::load::ledger::Outcome;
use warmroute_core::router::SharedRouter;
use warmroute_core::time::Time;
use warmroute_prompt::Prompter;
use warmroute_rpc::generate::{Another, Generation};
use warmroute_rpc::pb::report_request::Event;
use warmroute_rpc::pb::route_request::Prompt;
use warmroute_rpc::{Failure, Kind, Service, ServiceOptions, pb};

/// Half of the requests may be retried.
const RETRY_SHARE: f64 = 0.5;
const LEASE_TIME: Duration = Duration::from_secs(60);

fn service(workers: usize, max_requests: Option<u32>) -> Service {
    let router = SharedRouter::new(RouterConfig::default(), Instant::now()).unwrap();
    for i in 0..workers {
        let (name, url) = (format!("w{i}"), format!("http://w{i}"));
        let spec = WorkerSpec { name, url, max_requests, ..WorkerSpec::default() };
        router.lock().add_worker(spec).unwrap();
    }
    let options = ServiceOptions { max_reservations: 8, lease_time: LEASE_TIME };
    let retries = Arc::new(RetryBudget::new(RETRY_SHARE, 0.0));
    Service::new(router, Arc::new(Prompter::without_tokenizer()), retries, options)
}

/// A request that is handed over, and was sent to a worker.
fn sent(service: &Service) -> Generation {
    let message = pb::GenerateRequest { request: Some(request(ids(100))), ..pb::GenerateRequest::default() };
    let mut generation = Generation::read(service, bytes(&message), String::new()).unwrap();
    generation.book(service, Time::ZERO, 1).unwrap();
    generation
}

fn another(service: &Service, generation: &mut Generation, free: bool) -> Another {
    generation.book_another(service, Outcome::Failed, free, Time::ZERO, 2)
}

fn request(prompt: Prompt) -> pb::RouteRequest {
    pb::RouteRequest { prompt: Some(prompt), ..pb::RouteRequest::default() }
}

fn ids(count: u32) -> Prompt {
    Prompt::TokenIds((0..count).flat_map(u32::to_le_bytes).collect::<Vec<_>>().into())
}

fn bytes(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn route(service: &Service, request: &pb::RouteRequest, now: Time) -> Result<pb::RouteResponse, Failure> {
    let asked = service.read_route(bytes(request))?;
    Ok(pb::RouteResponse::decode(service.route(&asked, now, 7)?.as_slice()).unwrap())
}

fn report(service: &Service, reservation: u64, event: Option<Event>, now: Time) -> Result<(), Failure> {
    service.report(bytes(&pb::ReportRequest { reservation, event }), now).map(drop)
}

fn ended(outcome: pb::Outcome) -> Option<Event> {
    Some(Event::Ended(pb::Ended { outcome: outcome.into(), ..pb::Ended::default() }))
}

#[test]
fn a_reservation_lives_from_route_to_its_end() {
    let service = service(2, None);
    let first = route(&service, &request(ids(100)), Time::ZERO).unwrap();
    assert_eq!((first.lease_time_ms, service.router().lock().ledger().open()), (60_000, 1));
    let half = Time::ZERO.after(LEASE_TIME / 2);
    report(&service, first.reservation, None, half).unwrap();
    assert_eq!(service.expire(Time::ZERO.after(LEASE_TIME)), 0);
    report(&service, first.reservation, ended(pb::Outcome::Finished), half).unwrap();
    let again = report(&service, first.reservation, ended(pb::Outcome::Finished), half).unwrap_err();
    assert_eq!(again.kind, Kind::UnknownReservation);
    let lost = route(&service, &request(ids(100)), half).unwrap();
    // The table has been told of a later moment, from which this one lasts its whole time.
    assert_eq!(service.expire(half.after(LEASE_TIME)), 0);
    assert_eq!(service.expire(Time::ZERO.after(LEASE_TIME * 2)), 1);
    assert_eq!(report(&service, lost.reservation, None, half).unwrap_err().kind, Kind::UnknownReservation);
    assert_eq!((service.stats().expired, service.router().lock().ledger().open()), (1, 0));
}

#[test]
fn a_number_that_no_context_has_room_for_is_passed_over() {
    let service = service(1, None);
    for _ in 0..20 {
        let routed = route(&service, &request(ids(100)), Time::ZERO).unwrap();
        let progress = pb::Progress { output_tokens: u32::MAX };
        report(&service, routed.reservation, Some(Event::Progress(progress)), Time::ZERO).unwrap();
        let end = pb::Ended {
            outcome: pb::Outcome::Finished.into(),
            output_tokens: Some(u32::MAX),
            cached_tokens: Some(u32::MAX),
        };
        report(&service, routed.reservation, Some(Event::Ended(end)), Time::ZERO).unwrap();
    }
    route(&service, &request(ids(100)), Time::ZERO).unwrap();
    let router = service.router().lock();
    let worker = router.fleet().get("w0").unwrap().id;
    let load = router.ledger().load(worker.slot()).unwrap();
    assert_eq!(load.context_tokens(), 100);
    assert!(load.active_blocks() < 1_000, "{} blocks for one short request", load.active_blocks());
    assert_eq!(router.stats().reported, 0);
}

#[test]
fn what_is_refused_books_nothing() {
    let service = service(1, Some(2));
    for _ in 0..2 {
        route(&service, &request(ids(100)), Time::ZERO).unwrap();
    }
    let full = route(&service, &request(ids(100)), Time::ZERO).unwrap_err();
    assert_eq!(full.kind, Kind::Saturated);
    assert!(full.retry_after.unwrap() >= Duration::from_secs(1));
    service.drain();
    assert_eq!(route(&service, &request(ids(100)), Time::ZERO).unwrap_err().kind, Kind::Draining);
    assert_eq!((service.stats().open, service.router().lock().ledger().open()), (2, 2));
}

#[test]
fn an_empty_prompt_is_refused() {
    let service = service(1, None);
    for prompt in [ids(0), Prompt::TokenList(pb::TokenList::default()), Prompt::Text(String::new())] {
        let failure = service.read_route(bytes(&request(prompt))).unwrap_err();
        assert_eq!((failure.kind, failure.field), (Kind::InvalidRequest, "prompt"));
    }
}

#[test]
fn another_worker_is_tried_from_the_budget() {
    let service = service(2, None);
    let (mut first, mut second) = (sent(&service), sent(&service));
    let worker = first.worker().unwrap().id;
    assert_eq!(another(&service, &mut first, false), Another::Booked);
    assert_ne!(first.worker().unwrap().id, worker);
    // Two requests allow one retry; one for want of a connection needs none.
    let worker = second.worker().unwrap().id;
    assert_eq!(another(&service, &mut second, false), Another::Denied);
    assert_eq!(second.worker().unwrap().id, worker);
    assert_eq!(another(&service, &mut second, true), Another::Booked);
    drop((first, second));
    assert_eq!(service.router().lock().ledger().open(), 0);
}

#[test]
fn a_retry_without_another_worker_takes_nothing_from_the_budget() {
    let service = service(1, None);
    let (mut first, _second) = (sent(&service), sent(&service));
    assert_eq!(another(&service, &mut first, false), Another::Nobody);
    let url = "http://elsewhere".to_owned();
    service
        .router()
        .lock()
        .add_worker(WorkerSpec { name: "other".to_owned(), url, ..WorkerSpec::default() })
        .unwrap();
    assert_eq!(another(&service, &mut first, false), Another::Booked);
}

#[test]
fn a_stream_that_ended_gets_no_reservation() {
    let service = service(1, None);
    let stream = service.open_stream();
    let message = bytes(&pb::RouteStreamRequest {
        id: 5,
        message: Some(pb::route_stream_request::Message::Route(request(ids(100)))),
    });
    let answer = |bytes: Vec<u8>| pb::RouteStreamResponse::decode(bytes.as_slice()).unwrap();
    assert_eq!(answer(service.answer(stream, message.clone(), Time::ZERO, 1)).id, 5);
    assert_eq!(service.end_stream(stream), 1);
    // As when a long prompt was encoded meanwhile.
    answer(service.answer(stream, message, Time::ZERO, 2));
    assert_eq!((service.stats().open, service.router().lock().ledger().open()), (0, 0));
}

#[test]
fn reasons_and_codes_go_together() {
    for kind in Kind::ALL {
        assert!([3, 5, 8, 14].contains(&kind.code()));
        assert_eq!(kind.reason(), kind.reason().to_uppercase());
        assert!(Kind::ALL.iter().filter(|other| other.reason() == kind.reason()).count() == 1);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered_and_leave_no_load(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..20)) {
        let service = service(2, None);
        let stream = service.open_stream();
        for (turn, part) in parts.into_iter().enumerate() {
            let (now, random) = (Time::from_nanos(turn as u64), turn as u64);
            let part = Bytes::from(part);
            if let Ok(asked) = service.read_route(part.clone()) {
                let _routed = service.route(&asked, now, random);
            }
            let _reported = service.report(part.clone(), now);
            let _decided = service.decide(part.clone(), now, random);
            let _explained = service.explain(part.clone(), now, random);
            let _generated = Generation::read(&service, part.clone(), String::new());
            prop_assert!(pb::RouteStreamResponse::decode(service.answer(stream, part, now, random).as_slice()).is_ok());
        }
        service.end_stream(stream);
        service.expire(Time::MAX);
        prop_assert_eq!((service.stats().open, service.router().lock().ledger().open()), (0, 0));
    }
}
