"""gRPC statuses as the exceptions of `warmroute.errors`."""

import inspect
from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from warmroute import errors
from warmroute.errors import (
    DeadlineExceeded,
    FleetError,
    InvalidRequest,
    RouterUnreachable,
    WarmrouteError,
    WorkerRefused,
    WorkerReply,
    WorkerUnreachable,
)
from warmroute.v1 import router_pb2 as pb

_DETAILS = "grpc-status-details-bin"
# A router that cannot be reached is tried again after this many seconds.
_UNREACHABLE_RETRY_S = 0.5

_BY_REASON: dict[str, type[WarmrouteError]] = {
    cls.code.upper(): cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, WarmrouteError) and cls.code
}


class Fault:
    """What a status says."""

    def __init__(self, code: grpc.StatusCode, message: str, details: Iterable[Any]) -> None:
        """Take a status with its details."""
        self.code = code
        self.message = message
        self.reason = ""
        self.field = ""
        self.retry_after_s: float | None = None
        self.worker_status = 0
        for detail in details:
            self._take(detail)

    def _take(self, detail: Any) -> None:
        info, retry, bad = (
            error_details_pb2.ErrorInfo(),
            error_details_pb2.RetryInfo(),
            error_details_pb2.BadRequest(),
        )
        if detail.Unpack(info):
            self.reason = info.reason
            status = info.metadata.get("status", "")
            self.worker_status = int(status) if status.isdigit() else 0
        elif detail.Unpack(retry):
            self.retry_after_s = retry.retry_delay.ToMilliseconds() / 1000
        elif detail.Unpack(bad) and bad.field_violations:
            self.field = bad.field_violations[0].field

    def error(self) -> WarmrouteError:
        """The exception that says the same."""
        cls = _BY_REASON.get(self.reason)
        if cls is None:
            return self._plain()
        if issubclass(cls, InvalidRequest):
            return cls(self.message, self.field)
        if issubclass(cls, FleetError):
            return cls(self.message, self.retry_after_s or 0.0)
        if issubclass(cls, WorkerRefused):
            return cls(self.message, self.worker_status, self.retry_after_s)
        return self._of_worker(cls)

    def _of_worker(self, cls: type[WarmrouteError]) -> WarmrouteError:
        if issubclass(cls, WorkerReply):
            return cls(self.message, self.worker_status)
        if issubclass(cls, WorkerUnreachable):
            return cls(self.message, self.retry_after_s)
        return cls(self.message)

    def _plain(self) -> WarmrouteError:
        """What gRPC itself says, without details."""
        if self.code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeadlineExceeded(self.message)
        if self.code is grpc.StatusCode.UNAVAILABLE:
            return RouterUnreachable(self.message, _UNREACHABLE_RETRY_S)
        if self.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return InvalidRequest(f"the router does not take the message: {self.message}")
        return WarmrouteError(f"{self.code.name}: {self.message}")


def error_of(error: grpc.RpcError) -> WarmrouteError:
    """The exception of a call that failed."""
    code, message = error.code(), error.details() or ""
    return Fault(code, message, _details(error.trailing_metadata())).error()


def error_in(error: pb.Error) -> WarmrouteError:
    """The exception of a message on a stream that failed."""
    codes = {each.value[0]: each for each in grpc.StatusCode}
    fault = Fault(codes.get(error.code, grpc.StatusCode.UNKNOWN), error.message, ())
    fault.reason, fault.field = error.reason, error.field
    if error.HasField("retry_after_ms"):
        fault.retry_after_s = error.retry_after_ms / 1000
    return fault.error()


def _details(trailer: Iterable[Any] | None) -> list[Any]:
    for name, value in trailer or ():
        if name == _DETAILS and isinstance(value, bytes):
            try:
                return list(status_pb2.Status.FromString(value).details)
            except DecodeError:
                return []
    return []
