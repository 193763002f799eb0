"""The KV events of real engines: what the router knows by them, and knows again after it was restarted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import groups, vllm
from tests.support.engine import Engine
from tests.support.process import Router
from tests.support.waiting import until

# The first test of a run installs the engine where it is not yet.
pytestmark = pytest.mark.timeout(1200)

# The blocks of these engines.
FLAGS = ("--block-size", "32")


async def confirmed(router: Router) -> list[int]:
    """Blocks that events confirmed, by worker; none while the events of any are not followed."""
    loads = [worker["load"] for worker in await router.workers()]
    return [load["confirmed_blocks"] for load in loads] if all(load["following"] for load in loads) else []


async def test_a_restarted_router_knows_what_the_engines_hold(
    say: Callable[[str], None], tmp_path: Path, engines: list[Engine]
) -> None:
    for engine in engines:
        await vllm.forget(engine.port)
    named = [f"w{number}={engine.url}" for number, engine in enumerate(engines)]
    requests = groups.by_ids(3)
    async with Router(tmp_path / "first.log", named, *FLAGS) as router:
        await router.sees_ready(len(engines))
        answered = await groups.play(router.port, "/v1/completions", requests)
        exact = sum(one.overlap_tokens == one.cached_tokens for one in answered)
        held = await confirmed(router)
        say(f"{exact} of {len(answered)} predictions equal cached_tokens; blocks confirmed: {held}")
        assert exact >= 0.95 * len(answered)
        assert all(blocks > 100 for blocks in held)
    async with Router(tmp_path / "second.log", named, *FLAGS, "--warm-timeout-ms", "20000") as router:
        await router.sees_ready(len(engines))

        async def knows_again() -> bool:
            return await confirmed(router) == held

        await until(knows_again, f"{held} blocks are confirmed again")
        again = await groups.play(router.port, "/v1/completions", requests[-8:])
        exact = sum(one.overlap_tokens == one.cached_tokens for one in again)
        say(f"after a restart of the router: {exact} of {len(again)} predictions equal cached_tokens")
        assert exact >= len(again) - 1
