"""The client for asyncio. It belongs to the loop in which it is made."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import grpc
import grpc.aio

from warmroute.client.aio_stream import AsyncStream
from warmroute.client.channel import Connection, method, serialized
from warmroute.client.faults import error_of
from warmroute.client.generation import AsyncGeneration
from warmroute.client.keeper import Keeper
from warmroute.client.messages import REPORT_S, Booked, Prompt, Terms, request_of
from warmroute.client.reservations import AsyncReservation
from warmroute.client.retry import Patience
from warmroute.v1 import router_pb2 as pb

T = TypeVar("T")


class AsyncClient:
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
        self._channel = connection.aio()
        self._route = self._unary("Route", pb.RouteResponse)
        self._report_call = self._unary("Report", pb.ReportResponse)
        self._decide = self._unary("Decide", pb.DecideResponse)
        self._explain = self._unary("Explain", pb.ExplainResponse)
        self._keeper = Keeper()
        self._renewing: asyncio.Task[None] | None = None

    async def route(
        self, prompt: Prompt, *, timeout_s: float | None = None, **terms: Unpack[Terms]
    ) -> AsyncReservation:
        """Choose a worker and book the load: `async with await client.route(...) as reservation`.

        Its lease time is renewed while it is open and the client is. Raises the errors of `warmroute.errors`.
        Where renewing fails on this side, the next `route`, `first_token` or `progress` raises that.
        """
        self._keeper.check()
        request = request_of(prompt, **terms)
        response = await self._ask(self._route, request, request, timeout_s)
        reservation = AsyncReservation(response, self._report)
        self._keeper.told(reservation, time.monotonic())
        if self._renewing is None and reservation.lease_time_s > 0:
            self._renewing = asyncio.create_task(self._renew())
        return reservation

    async def decide(
        self, prompt: Prompt, *, timeout_s: float | None = None, **terms: Unpack[Terms]
    ) -> pb.Decision:
        """Choose a worker and book nothing; `terms` are those of `route`."""
        request = request_of(prompt, **terms)
        reply = await self._ask(self._decide, pb.DecideRequest(request=request), request, timeout_s)
        return reply.decision

    async def explain(
        self, prompt: Prompt, *, timeout_s: float | None = None, **terms: Unpack[Terms]
    ) -> pb.ExplainResponse:
        """Say where a request would go, and every worker's part in it; `terms` are those of `route`."""
        request = request_of(prompt, **terms)
        return await self._ask(self._explain, pb.ExplainRequest(request=request), request, timeout_s)

    async def generate(
        self,
        prompt: Prompt,
        *,
        sampling: pb.Sampling | None = None,
        return_token_ids: bool = False,
        timeout_s: float | None = None,
        **terms: Unpack[Terms],
    ) -> AsyncGeneration:
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

        async def first(message: pb.GenerateRequest, within_s: float | None) -> AsyncGeneration:
            call = start(message, timeout=within_s, metadata=self._metadata)
            response = await call.read()
            return AsyncGeneration(call, response if isinstance(response, pb.GenerateResponse) else None)

        return await self._ask(first, message, message.request, timeout_s)

    @contextlib.asynccontextmanager
    async def stream(self) -> AsyncIterator[AsyncStream]:
        """Open a stream: its reservations end with the block, at once, however it ends."""
        call = self._channel.stream_stream(
            method("RouteStream"),
            request_serializer=serialized,
            response_deserializer=pb.RouteStreamResponse.FromString,
        )
        stream = AsyncStream(call(metadata=self._metadata))
        try:
            yield stream
        finally:
            await stream.close()

    async def close(self) -> None:
        """Close the connection. Open reservations end with their lease time."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await self._channel.close()

    async def __aenter__(self) -> Self:
        """Nothing: the connection is made when it is needed."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self.close()

    def _unary(self, name: str, reply: type[T]) -> Callable[[Any, float | None], Awaitable[T]]:
        call = self._channel.unary_unary(
            method(name),
            request_serializer=serialized,
            response_deserializer=reply.FromString,  # type: ignore[attr-defined]
        )
        return lambda message, timeout: call(message, timeout=timeout, metadata=self._metadata)

    async def _ask(
        self,
        call: Callable[[Any, float | None], Awaitable[T]],
        message: Any,
        request: pb.RouteRequest,
        timeout_s: float | None,
    ) -> T:
        patience = Patience(self._timeout_s if timeout_s is None else timeout_s)
        while True:
            request.attempt = patience.attempt
            try:
                return await call(message, patience.left())
            except grpc.aio.AioRpcError as error:
                pause = patience.pause(error_of(error))
            await asyncio.sleep(pause)

    async def _report(self, booked: Booked, report: pb.ReportRequest) -> None:
        await self._tell(booked, report)
        if booked.is_open:
            self._keeper.check()

    async def _tell(self, booked: Booked, report: pb.ReportRequest) -> None:
        """Report, as far as that goes: a router that is gone must not break its caller's own work."""
        self._keeper.told(booked, time.monotonic())
        try:
            await self._report_call(report, REPORT_S)
        except grpc.aio.AioRpcError as error:
            self._keeper.lost(booked, error_of(error))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._keeper.wait_s(time.monotonic()))
            due = [booked for booked in self._keeper.due(time.monotonic()) if booked.is_open]
            renewals = (self._tell(booked, booked._renewal()) for booked in due)
            for result in await asyncio.gather(*renewals, return_exceptions=True):
                if isinstance(result, Exception):
                    self._keeper.failed(result)
