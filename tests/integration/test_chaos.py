"""Everything goes wrong at once: no request is lost, nothing hangs, and no load is left behind."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from tests.integration.conftest import StartRouter
from tests.support.bodies import assert_openai_error, chat, completion
from tests.support.fake_worker import (
    Behaviour,
    Exchange,
    FakeWorker,
    answer,
    closes_at_once,
    dies_after,
    error,
    garbage,
)
from tests.support.http import Client
from tests.support.process import Router
from tests.support.waiting import until

CLIENTS = 20
REQUESTS_EACH = 40
FAULTS: list[Behaviour] = [
    error(500),
    error(502),
    error(503, [("retry-after", "1")]),
    error(429, [("retry-after", "1")]),
    closes_at_once,
    garbage(b"not http\r\n\r\n"),
    dies_after(b'data: {"n": 0}\n\n'),
]


async def test_nothing_is_lost_and_nothing_is_left(start_router: StartRouter) -> None:
    rng = random.Random(11)
    fleet = [FakeWorker() for _ in range(3)]

    async def moody(exchange: Exchange) -> None:
        await (rng.choice(FAULTS) if rng.random() < 0.3 else answer)(exchange)

    for worker in fleet:
        worker.always(moody)
    async with fleet[0], fleet[1], fleet[2], start_router(*fleet) as router:
        await router.sees_ready(3)
        ends: Counter[str] = Counter()
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(_client(router, random.Random(number), ends))
            group.create_task(_restarts(fleet[2]))
        assert ends.total() == CLIENTS * REQUESTS_EACH
        assert ends["200"] > ends.total() / 2

        for worker in fleet:
            worker.always(answer)

        async def idle() -> bool:
            return await router.active_requests() == 0

        await until(idle, "no load is left")
        await router.sees_ready(3)
        assert await _one(router, chat(), leaves=False) == "200"


async def _client(router: Router, rng: random.Random, ends: Counter[str]) -> None:
    for _ in range(REQUESTS_EACH):
        stream = rng.random() < 0.5
        body = chat("word " * rng.randrange(1, 5000), stream=stream)
        if rng.random() < 0.5:
            body = completion([rng.randrange(50_000) for _ in range(rng.randrange(1, 3000))], stream=stream)
        ends[await _one(router, body, leaves=rng.random() < 0.1)] += 1


async def _one(router: Router, body: dict[str, object], *, leaves: bool) -> str:
    """How one request ended."""
    path = "/v1/completions" if "prompt" in body else "/v1/chat/completions"
    async with await Client.connect(router.port) as client, asyncio.timeout(20):
        await client.send(path, body)
        if leaves:
            return "left"
        head = await client.read_head()
        try:
            reply = await client.read_rest()
        except (asyncio.IncompleteReadError, ConnectionError):
            return "broken off"
        if reply.status == 200:
            return "200"
        assert reply.status in (429, 500, 502, 503)
        assert_openai_error(reply, head.status)
        return str(reply.status)


async def _restarts(worker: FakeWorker) -> None:
    for _ in range(5):
        await asyncio.sleep(0.1)
        await worker.stop()
        await asyncio.sleep(0.1)
        await worker.start()
