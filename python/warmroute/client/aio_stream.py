"""A `RouteStream` for asyncio."""

import asyncio
from typing import Any, Unpack

import grpc
import grpc.aio

from warmroute.client.faults import error_in, error_of
from warmroute.client.messages import LAST_ANSWERS_S, LEFT, MAX_UNANSWERED, Booked, Prompt, Terms, request_of
from warmroute.client.reservations import AsyncReservation
from warmroute.errors import RouterUnreachable, WarmrouteError
from warmroute.v1 import router_pb2 as pb


class AsyncStream:
    """Decisions and reports over one stream, pipelined.

    A report waits for no answer. Where `MAX_UNANSWERED` messages have none, decisions and reports wait until
    one has: a router that is slow makes its callers slow, and nothing piles up here.
    """

    def __init__(self, call: Any) -> None:
        """Take the call."""
        self._call = call
        # Bounded by the slots: a message takes one until it is answered.
        self._outbox: asyncio.Queue[pb.RouteStreamRequest] = asyncio.Queue()
        self._slots = asyncio.Semaphore(MAX_UNANSWERED)
        self._waiting: dict[int, asyncio.Future[pb.RouteStreamResponse]] = {}
        self._next_id = 1
        self._fault: WarmrouteError | None = None
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]

    async def route(self, prompt: Prompt, **terms: Unpack[Terms]) -> AsyncReservation:
        """Choose a worker and book the load; `terms` are those of `AsyncClient.route`."""
        future = await self._send(pb.RouteStreamRequest(route=request_of(prompt, **terms)))
        try:
            answer = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._leave(future.result())
            raise
        if answer.HasField("error"):
            raise error_in(answer.error)
        return AsyncReservation(answer.route, self._report)

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

    async def _report(self, _booked: Booked, report: pb.ReportRequest) -> None:
        # Its answer is not waited for: nothing can be done about a reservation that has ended.
        await self._send(pb.RouteStreamRequest(report=report))

    def _leave(self, answer: pb.RouteStreamResponse) -> None:
        """End the reservation of a caller who has left: nothing else would before the stream ends."""
        if answer.HasField("route") and self._fault is None:
            # Without a slot, which the reader must not wait for: there are no more of these than answers.
            self._post(
                pb.RouteStreamRequest(
                    report=pb.ReportRequest(reservation=answer.route.reservation, ended=LEFT)
                )
            )

    async def _send(self, message: pb.RouteStreamRequest) -> "asyncio.Future[pb.RouteStreamResponse]":
        await self._slots.acquire()
        if self._fault is not None:
            self._slots.release()
            raise self._fault
        future: asyncio.Future[pb.RouteStreamResponse] = asyncio.get_running_loop().create_future()
        self._waiting[self._post(message)] = future
        return future

    def _post(self, message: pb.RouteStreamRequest) -> int:
        message.id = self._next_id
        self._next_id += 1
        self._outbox.put_nowait(message)
        return message.id

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
                if future is not None:
                    self._slots.release()
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
                # Whoever waits for a slot learns of the end, too.
                self._slots.release()
                if not future.done():
                    future.set_exception(fault)
                    # A report is not waited for.
                    future.exception()
            self._waiting.clear()
