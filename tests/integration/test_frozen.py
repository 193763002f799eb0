"""A worker in a long prefill stays; one that is frozen goes, and comes back when it computes again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.integration.conftest import StartRouter
from tests.support.bodies import chat
from tests.support.fake_worker import FakeWorker, answer, gated_stream, headers_then_silent
from tests.support.http import Client
from tests.support.process import Router
from tests.support.waiting import until

CHAT = "/v1/chat/completions"
LOOKS = ("--probe-timeout-ms", "100", "--probe-failures", "2", "--scrape-interval-ms", "50")


@pytest.fixture
async def impatient(worker: FakeWorker, start_router: StartRouter) -> AsyncIterator[Router]:
    """A router that waits for a token for half a second."""
    async with start_router(worker, flags=(*LOOKS, "--freeze-timeout-ms", "500")) as router:
        yield router


async def health(router: Router) -> dict[str, object]:
    (worker,) = await router.workers()
    return {"state": worker["state"], **worker["health"]}


async def becomes(router: Router, **wanted: object) -> None:
    async def holds() -> bool:
        told = await health(router)
        return all(told[name] == value for name, value in wanted.items())

    await until(holds, f"{wanted}")


async def looked(worker: FakeWorker, times: int) -> None:
    enough = worker.probes + times

    async def holds() -> bool:
        return worker.probes >= enough

    await until(holds, f"{times} looks")


async def test_a_frozen_worker_goes_out(worker: FakeWorker, impatient: Router) -> None:
    worker.then(headers_then_silent)
    async with await Client.connect(impatient.port) as client:
        await client.send(CHAT, chat(stream=True))
        await worker.exchange()
        worker.answers_looks = False
        await becomes(impatient, slow=True, state="ready")
        await becomes(impatient, slow=False, state="down")
    worker.answers_looks = True
    await becomes(impatient, state="ready", failures=0)


async def test_a_worker_whose_stream_goes_on_is_slow_and_stays(worker: FakeWorker, impatient: Router) -> None:
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    worker.then(gated_stream(pieces))
    async with await Client.connect(impatient.port) as client:
        await client.send(CHAT, chat(stream=True))
        worker.answers_looks = False
        # Tokens come for two times as long as a silence may be.
        for number in range(400):
            pieces.put_nowait(b"data: %d\n\n" % number)
            await asyncio.sleep(0.0025)
        assert (await health(impatient))["state"] == "ready"
        await becomes(impatient, slow=True)
        worker.answers_looks = True
        pieces.put_nowait(b"")
        await becomes(impatient, slow=False, state="ready")


async def test_a_worker_in_a_long_prefill_is_slow_and_stays(
    worker: FakeWorker, start_router: StartRouter
) -> None:
    worker.then(headers_then_silent)
    async with start_router(worker, flags=LOOKS) as router, await Client.connect(router.port) as client:
        await client.send(CHAT, chat(stream=True))
        await worker.exchange()
        worker.answers_looks = False
        # Many more looks than would take it out without a request.
        await looked(worker, 8)
        assert (await health(router))["state"] == "ready"
        assert (await health(router))["slow"]


async def test_an_engine_that_stands_still_goes_out_and_is_tried(
    worker: FakeWorker, impatient: Router
) -> None:
    worker.always(headers_then_silent)
    async with await Client.connect(impatient.port) as client:
        await client.send(CHAT, chat(stream=True))
        await worker.exchange()
        await becomes(impatient, frozen=True, state="down")
    # Nothing runs any more, and looks are answered: it has to compute a token first.
    await worker.exchange(3)
    assert worker.exchanges[3].path == "/v1/completions"
    assert (await health(impatient))["state"] == "down"
    worker.always(answer)
    await becomes(impatient, frozen=False, state="ready")


async def test_an_engine_that_steps_stays_although_nothing_is_streamed(
    worker: FakeWorker, impatient: Router
) -> None:
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    worker.then(gated_stream(pieces))
    async with await Client.connect(impatient.port) as client:
        await client.send(CHAT, chat())
        await worker.exchange()

        async def step() -> bool:
            worker.steps += 1
            assert (await health(impatient))["state"] == "ready"
            return worker.steps >= 60

        await until(step, "60 steps")
        pieces.put_nowait(b"")
        await becomes(impatient, state="ready", failures=0)
