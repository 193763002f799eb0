"""The client for asyncio. It belongs to the loop in which it is made."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
import grpc.aio

from warmroute.client.aio_stream import AsyncStream
from warmroute.client.channel import Connection, method, serialized
from warmroute.client.faults import error_of
from warmroute.client.generation import AsyncGeneration
from warmroute.client.keeper import Keeper
from warmroute.client.messages import Booked, Outcome, Prompt, outcome_of, request_of
from warmroute.client.retry import Patience
from warmroute.errors import RequestError, WarmrouteError
from warmroute.logs import get
from warmroute.v1 import router_pb2 as pb

T = TypeVar("T")

# A report waits no longer: what it says is soon old.
_REPORT_S = 5.0

log = get("client")


class AsyncReservation(Booked):
    """A booked decision. As a context manager it reports its end: `finished`, `failed` or `cancelled`."""

    def __init__(
        self, response: pb.RouteResponse, report: Callable[[Booked, pb.ReportRequest], Awaitable[None]]
    ) -> None:
        """Take the answer to a `RouteRequest`, and what reports."""
        super().__init__(response)
        self._report = report

    async def first_token(self) -> None:
        """Report the first token: the prefill share of the load goes."""
        await self._report(self, self._first_token())

    async def progress(self, output_tokens: int) -> None:
        """Report how many output tokens there are so far."""
        await self._report(self, self._progress(output_tokens))

    async def close(self, outcome: Outcome = "finished") -> bool:
        """Report the end; answers `False` where it was reported before."""
        report = self._ended(outcome)
        if report is not None:
            # A task that is cancelled reports all the same.
            await asyncio.shield(asyncio.ensure_future(self._report(self, report)))
        return report is not None

    async def __aenter__(self) -> Self:
        """Nothing: the load is booked."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Report the end, where it was not."""
        await self.close(outcome_of(kind))


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
        self,
        prompt: Prompt,
        *,
        model: str = "",
        tenant: str = "",
        max_output_tokens: int | None = None,
        lora: str = "",
        cache_salt: str = "",
        session: str = "",
        avoid_workers: Sequence[str] = (),
        priority: int = 0,
        request_id: str = "",
        max_alternatives: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncReservation:
        """Choose a worker and book the load: `async with await client.route(...) as reservation`.

        Its lease time is renewed while it is open and the client is. Raises the errors of `warmroute.errors`.
        """
        request = request_of(
            prompt,
            model=model,
            tenant=tenant,
            max_output_tokens=max_output_tokens,
            lora=lora,
            cache_salt=cache_salt,
            session=session,
            avoid_workers=avoid_workers,
            priority=priority,
            request_id=request_id,
            max_alternatives=max_alternatives,
        )
        response = await self._ask(self._route, request, request, timeout_s)
        reservation = AsyncReservation(response, self._report)
        self._keeper.add(reservation, time.monotonic())
        if self._renewing is None and reservation.lease_time_s > 0:
            self._renewing = asyncio.create_task(self._renew())
        return reservation

    async def decide(self, prompt: Prompt, *, timeout_s: float | None = None, **terms: Any) -> pb.Decision:
        """Choose a worker and book nothing; `terms` are those of `route`."""
        request = request_of(prompt, **terms)
        reply = await self._ask(self._decide, pb.DecideRequest(request=request), request, timeout_s)
        return reply.decision

    async def explain(
        self, prompt: Prompt, *, timeout_s: float | None = None, **terms: Any
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
        **terms: Any,
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
        """Report, as far as that goes: a router that is gone must not break its caller's own work."""
        if booked.is_open:
            self._keeper.add(booked, time.monotonic())
        else:
            self._keeper.remove(booked)
        try:
            await self._report_call(report, _REPORT_S)
        except grpc.aio.AioRpcError as error:
            self._unreported(booked, error_of(error))

    def _unreported(self, booked: Booked, error: WarmrouteError) -> None:
        if isinstance(error, RequestError):
            self._keeper.remove(booked)
        log.warning("a report did not arrive", worker=booked.worker, error=error)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._keeper.wait_s(time.monotonic()))
            due = [booked for booked in self._keeper.due(time.monotonic()) if booked.is_open]
            await asyncio.gather(*(self._report(booked, booked._renewal()) for booked in due))
