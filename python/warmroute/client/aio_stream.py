"""A `RouteStream` for asyncio."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from warmroute.client.faults import error_in, error_of
from warmroute.client.messages import LAST_ANSWERS_S, LEFT, Booked, Outcome, Prompt, outcome_of, request_of
from warmroute.errors import RouterUnreachable, WarmrouteError
from warmroute.v1 import router_pb2 as pb


class AsyncStreamReservation(Booked):
    """A booked decision that ends with its stream. As a context manager it reports its end.

    Reports are sent on, not waited for.
    """

    def __init__(self, response: pb.RouteResponse, report: Callable[[pb.ReportRequest], None]) -> None:
        """Take the answer to a `RouteRequest`, and what reports."""
        super().__init__(response)
        self._report = report

    def first_token(self) -> None:
        """Report the first token: the prefill share of the load goes."""
        self._report(self._first_token())

    def progress(self, output_tokens: int) -> None:
        """Report how many output tokens there are so far."""
        self._report(self._progress(output_tokens))

    def close(self, outcome: Outcome = "finished") -> bool:
        """Report the end; answers `False` where it was reported before."""
        report = self._ended(outcome)
        if report is not None:
            self._report(report)
        return report is not None

    async def __aenter__(self) -> Self:
        """Nothing: the load is booked."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Report the end, where it was not."""
        self.close(outcome_of(kind))


class AsyncStream:
    """Decisions and reports over one stream, pipelined."""

    def __init__(self, call: Any) -> None:
        """Take the call."""
        self._call = call
        self._outbox: asyncio.Queue[pb.RouteStreamRequest] = asyncio.Queue()
        self._waiting: dict[int, asyncio.Future[pb.RouteStreamResponse]] = {}
        self._next_id = 1
        self._fault: WarmrouteError | None = None
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]

    async def route(self, prompt: Prompt, **terms: Any) -> AsyncStreamReservation:
        """Choose a worker and book the load; `terms` are those of `AsyncClient.route`."""
        future = self._send(pb.RouteStreamRequest(route=request_of(prompt, **terms)))
        try:
            answer = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._leave(future.result())
            raise
        if answer.HasField("error"):
            raise error_in(answer.error)
        return AsyncStreamReservation(answer.route, self._report)

    async def close(self) -> None:
        """Send what is to be sent, then end the stream, and with it its reservations."""
        try:
            # The router answers in order: an answer to the last message says that all of them arrived.
            if self._fault is None and (waiting := list(self._waiting.values())):
                await asyncio.wait(waiting, timeout=LAST_ANSWERS_S)
        finally:
            self._call.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _report(self, report: pb.ReportRequest) -> None:
        # Not waited for: nothing can be done about an answer that says that the reservation has ended.
        self._send(pb.RouteStreamRequest(report=report))

    def _leave(self, answer: pb.RouteStreamResponse) -> None:
        """End the reservation of a caller who has left: nothing else would before the stream ends."""
        if answer.HasField("route") and self._fault is None:
            self._report(pb.ReportRequest(reservation=answer.route.reservation, ended=LEFT))

    def _send(self, message: pb.RouteStreamRequest) -> "asyncio.Future[pb.RouteStreamResponse]":
        if self._fault is not None:
            raise self._fault
        message.id = self._next_id
        self._next_id += 1
        future: asyncio.Future[pb.RouteStreamResponse] = asyncio.get_running_loop().create_future()
        self._waiting[message.id] = future
        self._outbox.put_nowait(message)
        return future

    async def _write(self) -> None:
        try:
            while True:
                await self._call.write(await self._outbox.get())
        except (grpc.RpcError, asyncio.InvalidStateError):
            # The reader says why.
            return

    async def _read(self) -> None:
        fault: WarmrouteError = RouterUnreachable("the router ended the stream")
        try:
            async for answer in self._call:
                future = self._waiting.pop(answer.id, None)
                if future is not None and not future.done():
                    future.set_result(answer)
                else:
                    self._leave(answer)
        except grpc.aio.AioRpcError as error:
            fault = error_of(error)
        except asyncio.CancelledError:
            fault = RouterUnreachable("the stream is closed")
            raise
        finally:
            self._fault = fault
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(fault)
                    # A report is not waited for.
                    future.exception()
            self._waiting.clear()
