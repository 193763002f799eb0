"""Streams come as the worker sends them, and end as they should."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.integration.conftest import StartRouter
from tests.support.bodies import chat
from tests.support.fake_worker import (
    CHUNKED,
    SSE,
    Exchange,
    FakeWorker,
    dies_after,
    gated_stream,
    headers_then_silent,
)
from tests.support.http import Client, request
from tests.support.process import Router

CHAT = "/v1/chat/completions"


async def test_each_chunk_arrives_before_the_next_is_sent(worker: FakeWorker, router: Router) -> None:
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    worker.then(gated_stream(pieces))
    async with await Client.connect(router.port) as client, asyncio.timeout(10):
        await client.send(CHAT, chat(stream=True))
        for number in range(120):
            piece = b'data: {"n": %d}\n\n' % number
            pieces.put_nowait(piece)
            if number == 0:
                assert (await client.read_head()).status == 200
            assert await client.read_piece() == piece
        pieces.put_nowait(b"")
        assert await client.read_piece() == b""


async def test_headers_arrive_before_the_first_chunk(worker: FakeWorker, router: Router) -> None:
    worker.then(headers_then_silent)
    async with await Client.connect(router.port) as client, asyncio.timeout(10):
        await client.send(CHAT, chat(stream=True))
        head = await client.read_head()
    assert (head.status, head.get("content-type")) == (200, SSE[1])


async def test_a_client_that_does_not_read_slows_the_worker_down(worker: FakeWorker, router: Router) -> None:
    limit = 200 << 20
    sent = 0
    blocked = asyncio.Event()

    async def flood(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.head(200, SSE, CHUNKED)
        piece = b"x" * (256 << 10)
        while sent < limit:
            try:
                async with asyncio.timeout(1):
                    await exchange.chunk(piece)
            except TimeoutError:
                break
            sent += len(piece)
        blocked.set()
        await exchange.left.wait()

    worker.then(flood)
    async with await Client.connect(router.port) as client, asyncio.timeout(60):
        client.writer.transport.get_extra_info("socket").setsockopt(1, 8, 64 << 10)  # SO_RCVBUF
        await client.send(CHAT, chat(stream=True))
        await client.read_head()
        await blocked.wait()
    assert sent < 48 << 20  # what the kernel's socket buffers take, and not the stream


async def test_a_broken_stream_ends_with_an_error_event(worker: FakeWorker, router: Router) -> None:
    pieces = [b'data: {"n": 0}\n\n', b'data: {"n": 1}\n\n']
    worker.then(dies_after(*pieces))
    answer = await request(router.port, CHAT, chat(stream=True))
    assert answer.status == 200
    events = answer.body.split(b"\n\n")
    assert [event + b"\n\n" for event in events[:2]] == pieces
    assert events[2].startswith(b"data: ")
    error = json.loads(events[2].removeprefix(b"data: "))["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert len(worker.exchanges) == 1  # nothing is tried again after the first byte


async def test_an_error_event_is_not_glued_to_half_an_event(worker: FakeWorker, router: Router) -> None:
    worker.then(dies_after(b'data: {"n": 0}\n\n', b'data: {"half'))
    answer = await request(router.port, CHAT, chat(stream=True))
    last = answer.body.strip().split(b"\n\n")[-1]
    assert "error" in json.loads(last.removeprefix(b"data: "))


async def test_a_reply_cut_short_is_not_passed_off_as_whole(worker: FakeWorker, router: Router) -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.head(200, ("content-type", "application/json"), ("content-length", "1000"))
        await exchange.raw(b'{"id":')
        exchange.keep_alive = False

    worker.then(cut)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await request(router.port, CHAT, chat())
    assert (await request(router.port, CHAT, chat())).status == 200


async def test_many_streams_run_side_by_side(pair: list[FakeWorker], start_router: StartRouter) -> None:
    async with start_router(*pair) as router, asyncio.timeout(30):
        queues: list[asyncio.Queue[bytes]] = [asyncio.Queue() for _ in range(100)]
        for worker in pair:
            worker.always(lambda exchange: gated_stream(_queue_of(queues, exchange))(exchange))
        clients = [await Client.connect(router.port) for _ in queues]
        for number, client in enumerate(clients):
            await client.send(CHAT, chat(stream=True, user=str(number)))
        for turn in range(5):
            for number, queue in enumerate(queues):
                queue.put_nowait(b"%d.%d" % (number, turn))
        for queue in queues:
            queue.put_nowait(b"")
        for number, client in enumerate(clients):
            await client.read_head()
            whole = await client.read_rest()
            assert whole.body == b"".join(b"%d.%d" % (number, turn) for turn in range(5))
            client.leave()


def _queue_of(queues: list[asyncio.Queue[bytes]], exchange: Exchange) -> asyncio.Queue[bytes]:
    return queues[int(json.loads(exchange.request.body)["user"])]
