//! Why a message is not answered.

use std::fmt;
use std::time::Duration;

use warmroute_core::error::RouteError;
use warmroute_prompt::PromptError;

use crate::pb;

/// When to try again what fails for no more than a moment.
const SOON: Duration = Duration::from_secs(1);

/// What is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The message cannot be understood.
    InvalidRequest,
    /// No worker serves the model.
    UnknownModel,
    /// The prompt is longer than any eligible worker takes.
    PromptTooLong,
    /// No worker is ready.
    NoEligibleWorker,
    /// Every eligible worker has as many requests as it may have.
    Saturated,
    /// There is no reservation of that number.
    UnknownReservation,
    /// As many reservations are open as may be.
    TooManyReservations,
    /// The router ends.
    Draining,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 8] = [
        Kind::InvalidRequest,
        Kind::UnknownModel,
        Kind::PromptTooLong,
        Kind::NoEligibleWorker,
        Kind::Saturated,
        Kind::UnknownReservation,
        Kind::TooManyReservations,
        Kind::Draining,
    ];

    /// The gRPC status code.
    pub fn code(self) -> i32 {
        match self {
            Kind::InvalidRequest | Kind::PromptTooLong => 3,
            Kind::UnknownModel | Kind::UnknownReservation => 5,
            Kind::Saturated | Kind::TooManyReservations => 8,
            Kind::NoEligibleWorker | Kind::Draining => 14,
        }
    }

    /// The reason, as `ErrorInfo` has it.
    pub fn reason(self) -> &'static str {
        match self {
            Kind::InvalidRequest => "INVALID_REQUEST",
            Kind::UnknownModel => "MODEL_NOT_FOUND",
            Kind::PromptTooLong => "CONTEXT_LENGTH_EXCEEDED",
            Kind::NoEligibleWorker => "NO_ELIGIBLE_WORKER",
            Kind::Saturated => "SATURATED",
            Kind::UnknownReservation => "RESERVATION_NOT_FOUND",
            Kind::TooManyReservations => "TOO_MANY_RESERVATIONS",
            Kind::Draining => "DRAINING",
        }
    }

    /// The exception of `warmroute.errors` that says the same.
    pub fn exception(self) -> &'static str {
        match self {
            Kind::InvalidRequest => "InvalidRequest",
            Kind::UnknownModel => "UnknownModel",
            Kind::PromptTooLong => "PromptTooLong",
            Kind::NoEligibleWorker => "NoEligibleWorker",
            Kind::Saturated => "Saturated",
            Kind::UnknownReservation => "UnknownReservation",
            Kind::TooManyReservations => "TooManyReservations",
            Kind::Draining => "Draining",
        }
    }
}

/// Why a message is not answered. Its text never repeats a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is at fault.
    pub kind: Kind,
    /// What is wrong and what to do, for a person to read.
    pub message: String,
    /// After how long trying again makes sense; nothing where it does not.
    pub retry_after: Option<Duration>,
    /// The field at fault; empty where it is none.
    pub field: &'static str,
}

impl Failure {
    fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), retry_after: None, field: "" }
    }

    fn for_a_moment(kind: Kind, message: impl Into<String>) -> Failure {
        Failure { retry_after: Some(SOON), ..Failure::new(kind, message) }
    }

    pub(crate) fn invalid(field: &'static str, message: impl Into<String>) -> Failure {
        Failure { field, ..Failure::new(Kind::InvalidRequest, message) }
    }

    /// `error` of the prompt that is in `field`.
    pub(crate) fn prompt(field: &'static str, error: &PromptError) -> Failure {
        Failure::invalid(field, error.to_string())
    }

    pub(crate) fn unknown_reservation() -> Failure {
        let message = "there is no such reservation: it has ended, or its lease time ran out";
        Failure { field: "reservation", ..Failure::new(Kind::UnknownReservation, message) }
    }

    pub(crate) fn too_many_reservations(open: usize) -> Failure {
        let message = format!("{open} reservations are open, as many as may be: report how requests end");
        Failure::for_a_moment(Kind::TooManyReservations, message)
    }

    pub(crate) fn draining() -> Failure {
        Failure::for_a_moment(Kind::Draining, "the router ends: ask another one, or this one when it is back")
    }

    /// `random` spreads the retries of those who are refused together: up to a quarter more.
    pub(crate) fn route(error: &RouteError, random: u64) -> Failure {
        let message = error.to_string();
        match error {
            RouteError::UnknownModel(_) => {
                Failure { field: "model", ..Failure::new(Kind::UnknownModel, message) }
            }
            RouteError::PromptTooLong { .. } => Failure::new(Kind::PromptTooLong, message),
            RouteError::NoEligibleWorker => Failure::for_a_moment(Kind::NoEligibleWorker, message),
            RouteError::Saturated { retry_after } => Failure {
                retry_after: Some(retry_after.mul_f64(1.0 + (random % 1024) as f64 / 4096.0)),
                ..Failure::new(Kind::Saturated, message)
            },
        }
    }
}

impl From<prost::DecodeError> for Failure {
    fn from(error: prost::DecodeError) -> Failure {
        Failure::invalid("", format!("the message cannot be read: {error}"))
    }
}

impl From<&Failure> for pb::Error {
    fn from(failure: &Failure) -> pb::Error {
        let millis = |after: Duration| u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
        pb::Error {
            code: failure.kind.code(),
            reason: failure.kind.reason().to_owned(),
            message: failure.message.clone(),
            retry_after_ms: failure.retry_after.map(millis),
            field: failure.field.to_owned(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
