"""Connections to workers are used again, and one that a worker has closed meanwhile costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest

import warmroute
from tests.contract.rpc.conftest import Endpoint, StartEndpoint
from tests.contract.rpc.faults import fault_of
from tests.support.fake_worker import SSE, Exchange, FakeWorker
from tests.support.waiting import until
from warmroute.rpc import UpstreamOptions
from warmroute.v1 import router_pb2 as pb

ASKED = pb.GenerateRequest(request=pb.RouteRequest(token_ids=bytes(400)))
EVENTS = (b'data: {"choices":[{"index":0,"text":"x","finish_reason":"stop"}]}\n\n', b"data: [DONE]\n\n")
# No retry may be what makes up for a connection.
NO_RETRIES = UpstreamOptions.of({"retries": False})


async def whole(exchange: Exchange) -> None:
    await exchange.head(200, SSE, ("set-cookie", "a=b"), ("transfer-encoding", "chunked"))
    for part in (*EVENTS, b""):
        await exchange.chunk(part)


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as worker:
        worker.always(whole)
        yield worker


def router_of(*workers: FakeWorker) -> warmroute.Router:
    router = warmroute.Router()
    for number, worker in enumerate(workers):
        router.add_worker(f"w{number}", url=worker.url)
    return router


async def generated(endpoint: Endpoint) -> str:
    call = endpoint.stub.Generate(ASKED)
    text = ""
    while (response := await call.read()) is not grpc.aio.EOF:
        text += response.chunk.text
    return text


async def test_a_connection_is_used_again(start_endpoint: StartEndpoint, worker: FakeWorker) -> None:
    async with start_endpoint(router_of(worker), upstream=NO_RETRIES) as endpoint:
        assert [await generated(endpoint) for _ in range(3)] == ["x"] * 3
        assert len({exchange.connection for exchange in worker.exchanges}) == 1
        assert worker.exchanges[2].request.get("cookie") is None
        assert await asyncio.gather(*(generated(endpoint) for _ in range(4))) == ["x"] * 4


async def test_one_that_the_worker_closed_is_replaced_without_a_retry(
    start_endpoint: StartEndpoint, worker: FakeWorker
) -> None:
    async def closes(exchange: Exchange) -> None:
        exchange.die()

    async with start_endpoint(router_of(worker), upstream=NO_RETRIES) as endpoint:
        # Each connection answers once, and breaks as the next request comes.
        for _ in range(3):
            assert await generated(endpoint) == "x"
            worker.then(closes, whole)
        assert await generated(endpoint) == "x"
        assert len(worker.exchanges) == 7
        # A new one that breaks is the worker's fault.
        worker.then(closes, closes)
        assert (await fault_of(generated(endpoint))).reason == "WORKER_UNREACHABLE"
        assert len(worker.exchanges) == 9
        assert endpoint.server.stats()["retries"] == 0


@pytest.mark.parametrize("end", ["no end", "much more"])
async def test_a_reply_without_an_end_is_complete_all_the_same(
    start_endpoint: StartEndpoint, worker: FakeWorker, end: str
) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.head(200, SSE, ("transfer-encoding", "chunked"))
        for part in EVENTS:
            await exchange.chunk(part)
        while end == "much more" and not exchange.left.is_set():
            await exchange.chunk(b": more\n\n" * 1_000)
        await exchange.left.wait()

    worker.then(endless)
    async with start_endpoint(router_of(worker), upstream=NO_RETRIES) as endpoint:
        async with asyncio.timeout(5):
            assert await generated(endpoint) == "x"
            await worker.exchanges[0].left.wait()


async def test_none_is_kept_where_that_is_turned_off(
    start_endpoint: StartEndpoint, worker: FakeWorker
) -> None:
    upstream = UpstreamOptions.of({"worker_idle_ms": 0})
    async with start_endpoint(router_of(worker), upstream=upstream) as endpoint:
        for _ in range(3):
            assert await generated(endpoint) == "x"

            async def none_is_open() -> bool:
                return not worker._writers

            await until(none_is_open, "the connection is closed")
