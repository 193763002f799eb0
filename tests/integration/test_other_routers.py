"""What another router sends to a worker is seen in the worker's own metrics, and forgotten with them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.integration.conftest import QUICK
from tests.support.http import Client, request
from tests.support.process import Router
from tests.support.waiting import until
from warmroute.native import SimServer
from warmroute.sim import TOKENIZER

SCRAPES = (*QUICK, "--scrape-interval-ms", "50", "--policy", "least-requests")
STREAMS = 6


def body(number: int) -> dict[str, Any]:
    return {"model": "sim", "prompt": f"story {number}", "max_tokens": 20_000, "stream": True}


@contextlib.asynccontextmanager
async def streams(router: Router) -> AsyncIterator[None]:
    """Long streams that run."""
    async with contextlib.AsyncExitStack() as stack:
        for number in range(STREAMS):
            client = await stack.enter_async_context(await Client.connect(router.port))
            await client.send("/v1/completions", body(number))
            assert (await client.read_head()).status == 200
            await client.read_piece()
        yield


async def sees(router: Router, worker: str, others: int) -> None:
    async def holds() -> bool:
        told = {each["name"]: each["load"]["other_requests"] for each in await router.workers()}
        return bool(told[worker] == others)

    await until(holds, f"{others} requests of others on {worker}")


async def chosen(router: Router) -> str:
    reply = await request(router.port, "/warmroute/v1/explain", {"model": "sim", "prompt": "short"})
    return str(json.loads(reply.body)["decision"]["worker"])


async def test_requests_of_another_router_count_as_load(tmp_path: Path) -> None:
    busy, idle = (SimServer(tokenizer=str(TOKENIZER), speed=1.0) for _ in range(2))
    first, second = f"busy=http://127.0.0.1:{busy.port}", f"idle=http://127.0.0.1:{idle.port}"
    try:
        async with (
            Router(tmp_path / "other.log", [first], *SCRAPES) as other,
            Router(tmp_path / "router.log", [first, second], *SCRAPES) as router,
        ):
            await router.sees_ready(2)
            async with streams(other):
                await sees(router, "busy", STREAMS)
                assert await chosen(router) == "idle"
                # They are the other router's own, and nothing that it does not know of.
                await sees(other, "busy", 0)
                (told,) = await other.workers()
                assert told["load"]["requests"] == STREAMS
            await sees(router, "busy", 0)
    finally:
        busy.stop()
        idle.stop()
