"""Streams, departures and restarts with real engines behind the router."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import vllm
from tests.support.engine import Engine
from tests.support.http import Client, request
from tests.support.process import Router
from tests.support.waiting import until

# The first test of a run installs the engine where it is not yet.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
async def router(tmp_path: Path, engines: list[Engine], model: Path) -> AsyncIterator[Router]:
    urls = [engine.url for engine in engines]
    async with Router(tmp_path / "router.log", urls, "--tokenizer", str(model)) as one:
        await one.sees_ready(len(engines))
        yield one


def _long_stream(tokens: int) -> dict[str, Any]:
    """A stream of exactly `tokens` tokens, at 6 to 8 ms each."""
    message = {"role": "user", "content": "count"}
    chat: dict[str, Any] = {"model": "tiny", "messages": [message], "stream": True}
    return {**chat, "max_tokens": tokens, "ignore_eos": True, "temperature": 0}


async def test_models(router: Router, engines: list[Engine]) -> None:
    listed = (await router.get("/v1/models")).json()
    (card,) = listed["data"]
    (original,) = (await request(engines[0].port, "/v1/models")).json()["data"]
    assert (card["id"], card["max_model_len"]) == ("tiny", original["max_model_len"])


async def test_a_stream_arrives_as_it_is_computed(router: Router) -> None:
    arrivals = []
    async with await Client.connect(router.port) as client, asyncio.timeout(60):
        await client.send("/v1/chat/completions", _long_stream(200))
        assert (await client.read_head()).status == 200
        while piece := await client.read_piece():
            arrivals.append((time.monotonic(), piece))
    assert arrivals[-1][1].endswith(b"data: [DONE]\n\n")
    assert len(arrivals) > 150
    times = [at for at, _ in arrivals]
    middle = times[len(times) // 2] - times[0]
    # Chunks that were held back would come in one burst at the end.
    assert 0.25 < middle / (times[-1] - times[0]) < 0.75


@pytest.mark.parametrize("first_byte", [True, False])
async def test_a_client_that_leaves_frees_the_engine(
    router: Router, engines: list[Engine], first_byte: bool
) -> None:
    async def running() -> float:
        return sum([await vllm.running_requests(engine.port) for engine in engines])

    async def starts() -> bool:
        return await running() > 0

    async def ends() -> bool:
        return await running() == 0

    body = _long_stream(6000)  # 40 s if nobody aborts it
    async with await Client.connect(router.port) as client:
        await client.send("/v1/chat/completions", body)
        if first_byte:
            await client.read_head()
            await client.read_piece()
        await until(starts, "the engine runs the request")
    await until(ends, "the engine has aborted the request", 5)
    assert await router.active_requests() == 0


async def test_a_worker_that_is_killed_is_taken_out_and_in_again(
    router: Router, engines: list[Engine]
) -> None:
    victim = engines[1]
    name = await router.worker_name(victim.url)
    prompt: dict[str, Any] = {"model": "tiny", "prompt": list(range(1000, 1640)), "max_tokens": 1}

    async def answered_by() -> str | None:
        reply = await request(router.port, "/v1/completions", prompt)
        assert reply.status == 200, reply.body
        return reply.get("x-warmroute-worker")

    try:
        victim.stop(signal.SIGKILL)
        for _ in range(20):
            assert await answered_by() != name
        await router.sees_ready(1)
    finally:
        await asyncio.to_thread(victim.start)
        await asyncio.to_thread(victim.wait)
    await router.sees_ready(2)
    fresh_prompts = itertools.count(1000)
    names: set[str | None] = set()

    async def both_serve() -> bool:
        prompt["prompt"] = [next(fresh_prompts)] * 640
        names.add(await answered_by())
        return len(names) == 2

    await until(both_serve, "both workers serve again", 60)
