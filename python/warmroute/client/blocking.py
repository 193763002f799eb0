"""The client for ordinary programs. Its methods may be called from any thread."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import grpc

from warmroute.client.blocking_stream import Stream
from warmroute.client.channel import Connection, method, serialized
from warmroute.client.faults import error_of
from warmroute.client.generation import Generation
from warmroute.client.keeper import Keeper
from warmroute.client.messages import REPORT_S, Booked, Prompt, Terms, request_of
from warmroute.client.reservations import Reservation
from warmroute.client.retry import Patience
from warmroute.v1 import router_pb2 as pb

T = TypeVar("T")


class Client:
    """Asks a router where prompts should go, and hands requests over.

    What fails for no more than a moment is tried again when the router says so, within `timeout_s`.
    """

    def __init__(
        self,
        target: str,
        *,
        api_key: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """Take the address as `HOST:PORT`, a key, TLS credentials, and the seconds that a call may take."""
        connection = Connection(target=target, api_key=api_key, credentials=credentials)
        self._metadata = connection.metadata
        self._timeout_s = timeout_s
        self._channel = connection.blocking()
        self._route = self._unary("Route", pb.RouteResponse)
        self._report_call = self._unary("Report", pb.ReportResponse)
        self._decide = self._unary("Decide", pb.DecideResponse)
        self._explain = self._unary("Explain", pb.ExplainResponse)
        self._keeper = Keeper()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None

    def route(self, prompt: Prompt, *, timeout_s: float | None = None, **terms: Unpack[Terms]) -> Reservation:
        """Choose a worker and book the load. Use the answer in a `with` block, or `close` it.

        Its lease time is renewed while it is open and the client is. Raises the errors of `warmroute.errors`.
        Where renewing fails on this side, the next `route`, `first_token` or `progress` raises that.
        """
        self._keeper.check()
        request = request_of(prompt, **terms)
        reservation = Reservation(self._ask(self._route, request, request, timeout_s), self._report)
        self._keeper.told(reservation, time.monotonic())
        with self._lock:
            if self._renewing is None and reservation.lease_time_s > 0:
                self._renewing = threading.Thread(target=self._renew, name="warmroute-leases", daemon=True)
                self._renewing.start()
        return reservation

    def decide(
        self, prompt: Prompt, *, timeout_s: float | None = None, **terms: Unpack[Terms]
    ) -> pb.Decision:
        """Choose a worker and book nothing; `terms` are those of `route`."""
        request = request_of(prompt, **terms)
        return self._ask(self._decide, pb.DecideRequest(request=request), request, timeout_s).decision

    def explain(
        self, prompt: Prompt, *, timeout_s: float | None = None, **terms: Unpack[Terms]
    ) -> pb.ExplainResponse:
        """Say where a request would go, and every worker's part in it; `terms` are those of `route`."""
        request = request_of(prompt, **terms)
        return self._ask(self._explain, pb.ExplainRequest(request=request), request, timeout_s)

    def generate(
        self,
        prompt: Prompt,
        *,
        sampling: pb.Sampling | None = None,
        return_token_ids: bool = False,
        timeout_s: float | None = None,
        **terms: Unpack[Terms],
    ) -> Generation:
        """Hand a request over; iterate over the answer for its chunks. `terms` are those of `route`.

        It is tried again before its first message only. `timeout_s` is for the whole reply.
        """
        request = request_of(prompt, **terms)
        message = pb.GenerateRequest(request=request, sampling=sampling, return_token_ids=return_token_ids)
        start = self._channel.unary_stream(
            method("Generate"),
            request_serializer=serialized,
            response_deserializer=pb.GenerateResponse.FromString,
        )

        def first(message: pb.GenerateRequest, timeout: float | None) -> Generation:
            call = start(message, timeout=timeout, metadata=self._metadata)
            return Generation(call, next(call, None))

        return self._ask(first, message, message.request, timeout_s)

    @contextlib.contextmanager
    def stream(self) -> Iterator[Stream]:
        """Open a stream: its reservations end with the block, at once, however it ends."""
        call = self._channel.stream_stream(
            method("RouteStream"),
            request_serializer=serialized,
            response_deserializer=pb.RouteStreamResponse.FromString,
        )
        stream = Stream(lambda requests: call(requests, metadata=self._metadata))
        try:
            yield stream
        finally:
            stream.close()

    def close(self) -> None:
        """Close the connection. Open reservations end with their lease time."""
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join()
        self._channel.close()

    def __enter__(self) -> Self:
        """Nothing: the connection is made when it is needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def _unary(self, name: str, reply: type[T]) -> Callable[[Any, float | None], T]:
        call = self._channel.unary_unary(
            method(name),
            request_serializer=serialized,
            response_deserializer=reply.FromString,  # type: ignore[attr-defined]
        )
        return lambda message, timeout: call(message, timeout=timeout, metadata=self._metadata)

    def _ask(
        self,
        call: Callable[[Any, float | None], T],
        message: Any,
        request: pb.RouteRequest,
        timeout_s: float | None,
    ) -> T:
        patience = Patience(self._timeout_s if timeout_s is None else timeout_s)
        while True:
            request.attempt = patience.attempt
            try:
                return call(message, patience.left())
            except grpc.RpcError as error:
                pause = patience.pause(error_of(error))
            time.sleep(pause)

    def _report(self, booked: Booked, report: pb.ReportRequest) -> None:
        self._tell(booked, report)
        if booked.is_open:
            self._keeper.check()

    def _tell(self, booked: Booked, report: pb.ReportRequest) -> None:
        """Report, as far as that goes: a router that is gone must not break its caller's own work."""
        self._keeper.told(booked, time.monotonic())
        try:
            self._report_call(report, REPORT_S)
        except grpc.RpcError as error:
            self._keeper.lost(booked, error_of(error))

    def _renew(self) -> None:
        while not self._ended.wait(self._keeper.wait_s(time.monotonic())):
            for booked in self._keeper.due(time.monotonic()):
                if not booked.is_open:
                    continue
                try:
                    self._tell(booked, booked._renewal())
                except Exception as error:
                    self._keeper.failed(error)
