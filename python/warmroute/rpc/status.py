"""Errors as gRPC statuses with `google.rpc` details: the one place where the one becomes the other."""

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from warmroute.errors import (
    FleetError,
    InvalidRequest,
    UnknownReservation,
    WarmrouteError,
    WorkerRefused,
    WorkerReply,
    WorkerUnreachable,
)

DOMAIN = "warmroute"
DETAILS = "grpc-status-details-bin"

# A worker that could not be reached is left alone for a second at least.
_UNREACHABLE_RETRY_S = 1.0

# What a worker's own refusal is to the caller, by its HTTP status; others are failed preconditions.
_REFUSED = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}


def code_of(error: WarmrouteError) -> grpc.StatusCode:
    """The status code of an error."""
    if isinstance(error, WorkerRefused):
        return _REFUSED.get(error.status, grpc.StatusCode.FAILED_PRECONDITION)
    return grpc.StatusCode[error.grpc_code] if error.grpc_code else grpc.StatusCode.INTERNAL


def reason_of(error: WarmrouteError) -> str:
    """The reason in `ErrorInfo`: the code of OpenAI's error shape, in capitals."""
    return (error.code or "internal").upper()


def retry_after_s(error: WarmrouteError) -> float | None:
    """After how many seconds trying again makes sense; `None` where it does not."""
    if isinstance(error, FleetError):
        return error.retry_after_s if error.grpc_code != "DEADLINE_EXCEEDED" else None
    if isinstance(error, WorkerUnreachable):
        return _UNREACHABLE_RETRY_S
    return error.retry_after_s if isinstance(error, WorkerRefused) else None


def status_of(error: WarmrouteError) -> status_pb2.Status:
    """The whole status: code, message, details."""
    info = error_details_pb2.ErrorInfo(reason=reason_of(error), domain=DOMAIN)
    if isinstance(error, WorkerReply | WorkerRefused):
        info.metadata["status"] = str(error.status)
    details: list[Message] = [info]
    if (after := retry_after_s(error)) is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(max(1, round(after * 1000)))
        details.append(retry)
    if field := _field(error):
        violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=str(error))
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    return status_pb2.Status(
        code=code_of(error).value[0], message=str(error), details=[_packed(detail) for detail in details]
    )


def trailer_of(error: WarmrouteError) -> tuple[str, bytes]:
    """The trailing metadata that carries the whole status."""
    return DETAILS, status_of(error).SerializeToString()


def _field(error: WarmrouteError) -> str:
    if isinstance(error, InvalidRequest):
        return error.field
    return "reservation" if isinstance(error, UnknownReservation) else ""


def _packed(message: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed
