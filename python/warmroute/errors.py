"""One exception tree: whose fault it is, its HTTP status and gRPC code, and whether a retry may help."""

from typing import ClassVar, Literal


class WarmrouteError(Exception):
    """The root of everything that warmroute raises on purpose.

    Attributes:
        http_status: the status of an HTTP reply that reports this error; `None` where no reply can.
        grpc_code: the name of the gRPC status code, or `None`.
        error_type: the `type` of OpenAI's error shape.
        code: the `code` of OpenAI's error shape.
        try_elsewhere: whether another worker may be tried, and until when.
    """

    http_status: ClassVar[int | None] = None
    grpc_code: ClassVar[str | None] = None
    error_type: ClassVar[str] = "server_error"
    code: ClassVar[str | None] = None
    try_elsewhere: ClassVar[Literal["no", "before_first_byte"]] = "no"


class ConfigError(WarmrouteError, ValueError):
    """An option that cannot be used: names the key, the value, what is allowed and the value's source."""

    def __init__(self, key: str, value: object, allowed: str, source: str | None = None) -> None:
        """Take the option's key, the value it was given, the allowed range in words, and its source."""
        self.key = key
        self.value = value
        self.allowed = allowed
        self.source = source
        where = f" (from {source})" if source else ""
        super().__init__(f"{key} = {value!r}{where}: {allowed}")

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[str, object, str, str | None]]:
        """Pickle by the constructor's arguments, so that the error survives a process boundary."""
        return type(self), (self.key, self.value, self.allowed, self.source)


class RequestError(WarmrouteError, ValueError):
    """The caller's fault: the same request fails everywhere."""

    http_status = 400
    grpc_code = "INVALID_ARGUMENT"
    error_type = "invalid_request_error"


class InvalidRequest(RequestError):
    """A body, a token id or an argument that cannot be understood.

    `field` is the field at fault, where it is one.
    """

    code = "invalid_request"

    def __init__(self, message: str, field: str = "") -> None:
        """Take the message and the field at fault."""
        super().__init__(message)
        self.field = field


class Unauthorized(RequestError):
    """The caller did not say who it is, or not rightly."""

    http_status = 401
    grpc_code = "UNAUTHENTICATED"
    code = "unauthorized"


class Forbidden(RequestError):
    """The caller may not do this here."""

    http_status = 403
    grpc_code = "PERMISSION_DENIED"
    code = "forbidden"


class UnknownModel(RequestError):
    """No worker of the fleet serves the model."""

    http_status = 404
    grpc_code = "NOT_FOUND"
    code = "model_not_found"


class UnknownWorker(RequestError, LookupError):
    """The fleet has no worker of that name."""

    http_status = 404
    grpc_code = "NOT_FOUND"
    code = "worker_not_found"


class WorkerConflict(RequestError):
    """The fleet cannot be changed this way: the name is another worker's, or a source would undo it."""

    http_status = 409
    grpc_code = "FAILED_PRECONDITION"
    code = "worker_conflict"


class UnknownReservation(RequestError, LookupError):
    """There is no reservation of that number: it has ended, or its lease time ran out."""

    http_status = 404
    grpc_code = "NOT_FOUND"
    code = "reservation_not_found"


class PromptTooLong(RequestError):
    """The prompt is longer than any eligible worker takes."""

    http_status = 413
    code = "context_length_exceeded"


class WorkerRefused(RequestError):
    """The worker refuses the request, in its own words."""

    grpc_code = "FAILED_PRECONDITION"
    code = "worker_refused"

    def __init__(self, message: str, status: int = 400, retry_after_s: float | None = None) -> None:
        """Take the message, the status that the worker sent, and when it says to try again."""
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class TokensRefused(RequestError):
    """The request's exact tokens cannot be had here; a worker may take it all the same.

    `reason` is a short word for why, such as `media`.
    """

    code = "tokens_refused"

    def __init__(self, message: str, reason: str = "") -> None:
        """Take the message and the word for why."""
        super().__init__(message)
        self.reason = reason


class FleetError(WarmrouteError):
    """The fleet cannot take the request at this moment; `retry_after_s` says when to try again."""

    http_status = 503
    grpc_code = "UNAVAILABLE"

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        """Take the message and the seconds after which trying again makes sense."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Saturated(FleetError):
    """Every eligible worker is full."""

    http_status = 429
    grpc_code = "RESOURCE_EXHAUSTED"
    error_type = "rate_limit_error"
    code = "saturated"


class TooManyReservations(FleetError):
    """As many reservations are open as may be."""

    http_status = 429
    grpc_code = "RESOURCE_EXHAUSTED"
    error_type = "rate_limit_error"
    code = "too_many_reservations"


class TooManyCalls(FleetError):
    """As many calls are open as may be."""

    http_status = 429
    grpc_code = "RESOURCE_EXHAUSTED"
    error_type = "rate_limit_error"
    code = "too_many_calls"


class Draining(FleetError):
    """The router ends, and takes nothing new."""

    code = "draining"


class NoEligibleWorker(FleetError):
    """No worker that could serve the request is ready."""

    code = "no_eligible_worker"


class RouterUnreachable(FleetError, ConnectionError):
    """The router itself does not answer; what a client raises."""

    code = "router_unreachable"


class DeadlineExceeded(FleetError, TimeoutError):
    """The request's time ran out before a worker took it."""

    http_status = 504
    grpc_code = "DEADLINE_EXCEEDED"
    code = "deadline_exceeded"


class WorkerError(WarmrouteError):
    """A worker's fault; another worker may be tried, once, before the first byte."""

    http_status = 502
    grpc_code = "UNAVAILABLE"
    try_elsewhere = "before_first_byte"


class WorkerUnreachable(WorkerError, ConnectionError):
    """The connection to the worker was refused or broke."""

    code = "worker_unreachable"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        """Take the message and, where a router says so, when to try again."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class WorkerReply(WorkerError):
    """The worker answered with a server error, or with something that is not an answer."""

    grpc_code = "INTERNAL"
    code = "worker_reply"

    def __init__(self, message: str, status: int = 502) -> None:
        """Take the message and the status that the worker sent."""
        super().__init__(message)
        self.status = status


class WorkerTimeout(WorkerError, TimeoutError):
    """The worker did not answer in time."""

    http_status = 504
    grpc_code = "DEADLINE_EXCEEDED"
    code = "worker_timeout"


class StreamInterrupted(WarmrouteError):
    """A worker broke off in the middle of a stream; nothing is tried again after the first byte."""

    grpc_code = "ABORTED"
    code = "stream_interrupted"
