"""What the client holds is bounded, and what fails behind its caller's back is told."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc.aio
import pytest

import warmroute
import warmroute.rpc
from tests.support.waiting import until, wait_until
from warmroute.client import (
    AsyncClient,
    AsyncReservation,
    AsyncStream,
    Client,
    Reservation,
    Stream,
    aio_stream,
    blocking_stream,
)
from warmroute.client.messages import request_of
from warmroute.config import GrpcOptions
from warmroute.errors import DeadlineExceeded, RouterUnreachable, WarmrouteError
from warmroute.v1 import router_pb2 as pb

IDS = bytes(4_000)
ROUTED = pb.RouteResponse(reservation=7)
SLOTS = 4


class Slow:
    """A router that reads nothing of a stream and answers when it is told to."""

    def __init__(self) -> None:
        self.sent: list[pb.RouteStreamRequest] = []
        self.answers: asyncio.Queue[pb.RouteStreamResponse | None] = asyncio.Queue()

    async def write(self, message: pb.RouteStreamRequest) -> None:
        self.sent.append(message)

    async def __aiter__(self) -> AsyncIterator[pb.RouteStreamResponse]:
        while (answer := await self.answers.get()) is not None:
            yield answer

    def cancel(self) -> None:
        self.answers.put_nowait(None)


async def test_an_asyncio_stream_waits_where_too_much_is_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio_stream, "MAX_UNANSWERED", SLOTS)
    router = Slow()
    stream = AsyncStream(router)
    reservation = AsyncReservation(ROUTED, stream._report)
    for count in range(SLOTS):
        await reservation.progress(count)
    blocked = [asyncio.create_task(reservation.progress(count)) for count in (10, 11)]
    asking = asyncio.create_task(stream.route(IDS))

    async def sent() -> bool:
        return len(router.sent) == SLOTS

    await until(sent, "the slots are taken")
    assert not any(task.done() for task in (*blocked, asking))
    # One answer makes room for one, in order.
    router.answers.put_nowait(pb.RouteStreamResponse(id=1, report=pb.ReportResponse()))
    await blocked[0]
    assert not blocked[1].done()
    # A task that is cancelled meanwhile reports its end all the same, once there is room.
    asking.cancel()
    closing = asyncio.create_task(reservation.close())
    await asyncio.sleep(0)
    closing.cancel()
    for number in (2, 3):
        router.answers.put_nowait(pb.RouteStreamResponse(id=number, report=pb.ReportResponse()))

    async def ended() -> bool:
        return any(message.report.HasField("ended") for message in router.sent)

    await until(ended, "the end is reported")
    # At the end nobody waits on.
    waiting = asyncio.create_task(stream.route(IDS))
    await asyncio.sleep(0)
    router.cancel()
    with pytest.raises(RouterUnreachable):
        await waiting
    await stream.close()


def test_a_stream_waits_where_too_much_is_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_stream, "MAX_UNANSWERED", SLOTS)
    answers: queue.SimpleQueue[pb.RouteStreamResponse | None] = queue.SimpleQueue()

    class Call:
        def __iter__(self) -> Iterator[pb.RouteStreamResponse]:
            return iter(answers.get, None)

        def cancel(self) -> None:
            answers.put(None)

    stream = Stream(lambda _messages: Call())
    reservation = Reservation(ROUTED, stream._report)
    for count in range(SLOTS):
        reservation.progress(count)
    with pytest.raises(DeadlineExceeded):
        stream.route(IDS, timeout_s=0.05)
    assert stream._outbox.qsize() == SLOTS
    blocked = threading.Thread(target=reservation.progress, args=(10,))
    blocked.start()
    answers.put(pb.RouteStreamResponse(id=1, report=pb.ReportResponse()))
    blocked.join(10)
    assert not blocked.is_alive()
    assert stream._outbox.qsize() == SLOTS + 1
    answers.put(None)
    with pytest.raises(RouterUnreachable):
        wait_until(lambda: bool(stream.route(IDS, timeout_s=0.5)))
    stream.close()


@contextlib.contextmanager
def served() -> Iterator[tuple[warmroute.Router, str]]:
    router = warmroute.Router()
    router.add_worker("w", url="http://10.0.0.1:8000")
    options = GrpcOptions(grpc_lease_time_ms=600)
    with warmroute.rpc.serve_in_thread(router, options=options, drain_s=0.1) as server:
        yield router, f"127.0.0.1:{server.port}"


def errors(caplog: pytest.LogCaptureFixture) -> int:
    return sum("could not be renewed" in record.message for record in caplog.records)


class Breaks:
    """What reports, out of order for a while."""

    def __init__(self, call: Any) -> None:
        self.call, self.tries, self.broken = call, 0, True

    def __call__(self, message: pb.ReportRequest, within_s: float | None) -> Any:
        self.tries += 1
        if self.broken:
            raise grpc.aio.UsageError("the channel is closed")
        return self.call(message, within_s)


def test_a_renewal_that_fails_is_logged_once_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with served() as (router, target), Client(target) as client:
        reservation = client.route(IDS)
        client._report_call = report = Breaks(client._report_call)
        wait_until(lambda: report.tries >= 3)
        assert errors(caplog) == 1
        report.broken = False
        with pytest.raises(WarmrouteError, match="the channel is closed"):
            reservation.progress(1)
        reservation.progress(2)
        # Renewing goes on: what is booked from here on outlives its lease time.
        later, tries = client.route(IDS), report.tries
        wait_until(lambda: report.tries >= tries + 5)
        assert router.stats()["open"] >= 1
        later.close()
        report.broken = True
        client.route(IDS)
        wait_until(lambda: errors(caplog) == 2)
        with pytest.raises(WarmrouteError):
            client.route(IDS)


async def test_an_asyncio_renewal_that_fails_is_logged_once_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with served() as (router, target):
        async with AsyncClient(target) as client:
            reservation = await client.route(IDS)
            client._report_call = report = Breaks(client._report_call)

            async def tried() -> bool:
                return report.tries >= 3

            await until(tried, "renewals were tried")
            assert errors(caplog) == 1
            report.broken = False
            with pytest.raises(WarmrouteError, match="the channel is closed"):
                await reservation.first_token()
            later, tries = await client.route(IDS), report.tries

            async def renewed() -> bool:
                return report.tries >= tries + 5

            await until(renewed, "renewing goes on")
            assert router.stats()["open"] >= 1
            await later.close()


def test_a_term_that_is_none_is_named() -> None:
    with pytest.raises(TypeError, match="'modle' is no term"):
        request_of(IDS, modle="m")  # type: ignore[call-arg]
