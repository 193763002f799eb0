"""A client that leaves closes the upstream connection within 100 ms, whatever the request is waiting for."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.integration.conftest import StartRouter
from tests.support.bodies import chat
from tests.support.fake_worker import (
    Behaviour,
    Exchange,
    FakeWorker,
    error,
    gated_stream,
    headers_then_silent,
    silent,
)
from tests.support.http import Client, request
from tests.support.process import Router
from tests.support.waiting import until

CHAT = "/v1/chat/completions"
AT_ONCE_SECONDS = 0.1


async def _left_after(exchange: Exchange, since: float) -> float:
    """Seconds from `since` until the worker saw the connection close."""
    async with asyncio.timeout(10):
        await exchange.left.wait()
    assert exchange.left_at is not None
    return exchange.left_at - since


@pytest.mark.parametrize("stream", [True, False])
async def test_before_the_headers(worker: FakeWorker, router: Router, stream: bool) -> None:
    worker.then(silent)
    async with await Client.connect(router.port) as client:
        await client.send(CHAT, chat(stream=stream))
        exchange = await worker.exchange()
        client.leave()
        assert await _left_after(exchange, time.monotonic()) < AT_ONCE_SECONDS
    assert (await request(router.port, CHAT, chat())).status == 200


async def test_between_the_headers_and_the_first_byte(worker: FakeWorker, router: Router) -> None:
    worker.then(headers_then_silent)
    async with await Client.connect(router.port) as client:
        await client.send(CHAT, chat(stream=True))
        await client.read_head()
        client.leave()
        assert await _left_after(await worker.exchange(), time.monotonic()) < AT_ONCE_SECONDS
    assert (await request(router.port, CHAT, chat())).status == 200


async def test_in_the_middle_of_the_stream(worker: FakeWorker, router: Router) -> None:
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    worker.then(gated_stream(pieces))
    async with await Client.connect(router.port) as client:
        await client.send(CHAT, chat(stream=True))
        pieces.put_nowait(b"data: 1\n\n")
        await client.read_head()
        assert await client.read_piece()
        client.leave()
        assert await _left_after(await worker.exchange(), time.monotonic()) < AT_ONCE_SECONDS
    assert (await request(router.port, CHAT, chat())).status == 200


async def test_with_an_orderly_close(worker: FakeWorker, router: Router) -> None:
    worker.then(silent)
    async with await Client.connect(router.port) as client:
        await client.send(CHAT, chat(stream=True))
        exchange = await worker.exchange()
        client.writer.close()
        assert await _left_after(exchange, time.monotonic()) < AT_ONCE_SECONDS


async def test_on_the_second_try(pair: list[FakeWorker], pair_router: Router) -> None:
    held: asyncio.Queue[Exchange] = asyncio.Queue()
    first_try = True

    async def busy_then_silent(exchange: Exchange) -> None:
        nonlocal first_try
        if first_try:
            first_try = False
            await error(503)(exchange)
        else:
            held.put_nowait(exchange)
            await silent(exchange)

    for worker in pair:
        worker.always(busy_then_silent)
    async with await Client.connect(pair_router.port) as client, asyncio.timeout(10):
        await client.send(CHAT, chat())
        exchange = await held.get()
        client.leave()
        assert await _left_after(exchange, time.monotonic()) < AT_ONCE_SECONDS


async def test_while_it_sends_the_body(worker: FakeWorker, router: Router) -> None:
    async with await Client.connect(router.port) as client:
        await client.send(CHAT, headers=[("content-length", "1000")])
        client.writer.write(b'{"model":"tiny",')
        await client.writer.drain()
    assert (await request(router.port, CHAT, chat("after"))).status == 200
    assert [b"after" in exchange.request.body for exchange in worker.exchanges] == [True]


@pytest.mark.parametrize("behaviour", [silent, headers_then_silent])
async def test_a_crowd_leaves_no_load_behind(
    pair: list[FakeWorker], start_router: StartRouter, behaviour: Behaviour
) -> None:
    async with start_router(*pair) as router:
        await router.sees_ready(2)
        for worker in pair:
            worker.always(behaviour)
        clients = [await Client.connect(router.port) for _ in range(60)]
        for number, client in enumerate(clients):
            await client.send(CHAT, chat(f"{number} " * 50, stream=True))

        async def active(count: int) -> None:
            async def holds() -> bool:
                return await router.active_requests() == count

            await until(holds, f"{count} requests are active")

        await active(len(clients))
        for client in clients:
            client.leave()
        async with asyncio.timeout(10):
            for worker in pair:
                for exchange in worker.exchanges:
                    await exchange.left.wait()
        await active(0)
