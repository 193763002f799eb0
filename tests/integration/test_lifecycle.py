"""Workers come and go, and the router starts and ends, without losing a request."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.conftest import StartRouter
from tests.support.bodies import assert_openai_error, chat
from tests.support.fake_worker import FakeWorker, gated_stream
from tests.support.http import Client, request
from tests.support.process import Router
from tests.support.waiting import until

CHAT = "/v1/chat/completions"


async def test_a_worker_that_comes_up_later_is_taken_in(start_router: StartRouter) -> None:
    late = FakeWorker()
    await late.start()
    await late.stop()
    async with start_router(late, ready=False) as router:
        assert_openai_error(await request(router.port, CHAT, chat()), 503)
        async with late:
            await router.answers("/readyz", 200)
            assert (await request(router.port, CHAT, chat())).status == 200


async def test_a_worker_that_dies_is_taken_out_and_in_again(worker: FakeWorker, router: Router) -> None:
    assert (await request(router.port, CHAT, chat())).status == 200
    await worker.stop()
    await router.answers("/readyz", 503)
    assert_openai_error(await request(router.port, CHAT, chat()), 503)
    await worker.start()
    await router.answers("/readyz", 200)
    assert (await request(router.port, CHAT, chat())).status == 200


async def test_a_worker_that_says_it_is_ill_gets_nothing(pair: list[FakeWorker], pair_router: Router) -> None:
    pair[0].healthy = False
    await pair_router.sees_ready(1)
    for number in range(10):
        assert (await request(pair_router.port, CHAT, chat(f"{number}"))).status == 200
    assert [len(worker.exchanges) for worker in pair] == [0, 10]
    pair[0].healthy = True
    await pair_router.sees_ready(2)


async def test_a_termination_drains_what_runs_and_takes_nothing_new(
    worker: FakeWorker, router: Router
) -> None:
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    worker.then(gated_stream(pieces))
    async with await Client.connect(router.port) as client, asyncio.timeout(20):
        await client.send(CHAT, chat(stream=True))
        pieces.put_nowait(b"data: 1\n\n")
        await client.read_head()
        assert await client.read_piece() == b"data: 1\n\n"
        router.terminate()
        await _refuses(router)
        taken = len(worker.exchanges)
        for number in range(2, 20):
            pieces.put_nowait(b"data: %d\n\n" % number)
            assert await client.read_piece() == b"data: %d\n\n" % number
        pieces.put_nowait(b"")
        assert await client.read_piece() == b""
    assert await router.wait() == 0
    assert len(worker.exchanges) == taken


async def test_a_termination_without_requests_is_quick(router: Router) -> None:
    router.terminate()
    assert await router.wait(3) == 0


async def test_idle_connections_do_not_hold_up_the_end(worker: FakeWorker, router: Router) -> None:
    async with await Client.connect(router.port) as client:
        await client.send(CHAT, chat())
        await client.read_head()
        await client.read_rest()
        router.terminate()
        assert await router.wait(3) == 0
        assert await client.reader.read() == b""


async def test_a_port_that_is_taken_is_an_error_and_not_a_crash(
    worker: FakeWorker, start_router: StartRouter
) -> None:
    second = start_router(worker, flags=("--host", "127.0.0.1"), ready=False)
    assert isinstance(second, Router)
    async with FakeWorker(port=second.port):
        with pytest.raises(AssertionError, match=r"exited with [12]"):
            await second.__aenter__()
    assert str(second.port) in second.log_text()
    assert "Traceback" not in second.log_text()


async def _refuses(router: Router) -> None:
    """Waits until a new request is refused: the connection, or with a 503 in OpenAI's shape."""

    async def holds() -> bool:
        try:
            reply = await request(router.port, CHAT, chat("new"))
        except OSError:
            return True
        if reply.status == 503:
            assert_openai_error(reply, 503)
        return reply.status == 503

    await until(holds, "new requests are refused")
