"""A simulated worker's KV events, from its sockets to the router's index."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.integration.test_commands import sim_worker
from tests.support.http import Reply, request
from tests.support.process import Router, free_port
from tests.support.waiting import until
from warmroute.sim import TOKENIZER

FLAGS = ("--tokenizer", str(TOKENIZER), "--probe-interval-ms", "50")


@contextlib.asynccontextmanager
async def publishing() -> AsyncIterator[int]:
    """The port of a worker that publishes its events and replays them."""
    events, replay = (f"tcp://*:{free_port()}" for _ in range(2))
    flags = ("--kv-events-endpoint", events, "--kv-events-replay-endpoint", replay, "--speed", "100")
    async with sim_worker(*flags) as (port, _):
        yield port


def body(text: str) -> bytes:
    message = {"role": "user", "content": text}
    return json.dumps({"model": "sim", "messages": [message], "max_tokens": 20}).encode()


async def ask(router: Router, text: str) -> tuple[int, int]:
    """The overlap that the router expected, and what the worker had cached, in tokens."""
    reply = await request(router.port, "/v1/chat/completions", body(text))
    assert reply.status == 200
    usage = reply.json()["usage"]
    return int(header(reply, "x-warmroute-overlap-tokens")), usage["prompt_tokens_details"]["cached_tokens"]


def header(reply: Reply, name: str) -> str:
    return dict(reply.headers)[name]


async def load(router: Router) -> dict[str, Any]:
    (worker,) = await router.workers()
    return dict(worker["load"])


async def confirms(router: Router, blocks: int) -> None:
    async def holds() -> bool:
        now = await load(router)
        return bool(now["following"]) and now["confirmed_blocks"] == blocks

    await until(holds, f"{blocks} blocks are confirmed")


async def test_what_a_worker_holds_is_known_and_known_again_after_a_restart(tmp_path: Path) -> None:
    texts = [f"{agent} " + "reads a long and shared prompt. " * 300 for agent in range(3)]
    async with publishing() as port:
        url = f"http://127.0.0.1:{port}"
        async with Router(tmp_path / "first.log", [url], *FLAGS) as router:
            for text in texts:
                assert await ask(router, text) == (0, 0)
            for text in texts:
                overlap, cached = await ask(router, text)
                assert overlap == cached > 1000
            await until(lambda: following(router), "events are followed")
            held = (await load(router))["confirmed_blocks"]
        async with Router(tmp_path / "second.log", [url], *FLAGS, "--warm-timeout-ms", "20000") as router:
            await confirms(router, held)
            overlap, cached = await ask(router, texts[0])
            assert overlap == cached > 1000
            page = (await router.get("/metrics")).body.decode()
            assert 'warmroute_worker_following{worker="' in page
            assert "warmroute_kv_event_replays_total" in page
        assert "KV events are followed" in router.log_text()


async def following(router: Router) -> bool:
    now = await load(router)
    return bool(now["following"]) and now["predicted_blocks"] == 0


async def test_without_events_the_index_is_predicted(tmp_path: Path) -> None:
    async with publishing() as port:
        url = f"http://127.0.0.1:{port}"
        flags = (*FLAGS, "--kv-events", "off")
        async with Router(tmp_path / "off.log", [url], *flags) as router:
            await ask(router, "a text " * 500)
            now = await load(router)
            assert (now["following"], now["confirmed_blocks"]) == (False, 0)
            assert now["predicted_blocks"] > 0
