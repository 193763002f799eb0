"""What the router says that real engines hold, while they evict: `bench/truth` in small."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support import vllm
from tests.support.answers import Answer, play
from tests.support.capture import Capture
from tests.support.engine import BLOCK_TOKENS, Engine
from tests.support.process import Router
from tests.support.truth import compare
from tests.support.workload import Workload

# The first test of a run installs the engine where it is not yet.
pytestmark = pytest.mark.timeout(1200)

FLAGS = ("--block-size", str(BLOCK_TOKENS))
CLIENTS = 2


def workload(seed: int) -> Workload:
    """Prefixes of all groups and tenants are half of what both workers have room for."""
    return Workload(seed, prefix_tokens=(200, 700))


def near(answers: Sequence[Answer]) -> int:
    """Predictions that are off by a block at most."""
    assert all(answer.status == 200 for answer in answers)
    return sum(abs(answer.error_tokens) <= BLOCK_TOKENS for answer in answers)


async def test_the_index_is_what_the_engines_hold(
    say: Callable[[str], None], tmp_path: Path, engines: list[Engine], model: Path
) -> None:
    requests, answers = workload(4), []
    with contextlib.ExitStack() as stack:
        captures = {
            f"w{at}": Capture(one.events_endpoint, one.replay_endpoint) for at, one in enumerate(engines)
        }
        for capture in captures.values():
            stack.callback(capture.close)
        named = [f"w{at}={one.url}" for at, one in enumerate(engines)]
        async with Router(tmp_path / "log", named, *FLAGS, "--tokenizer", str(model)) as router:
            await router.sees_ready(len(engines))
            for quarter in range(4):
                if quarter == 2:
                    await vllm.forget(engines[0].port)
                    # The engine says that it is empty with its next step.
                    await vllm.complete(engines[0].port)
                answers += await play(router.port, requests, CLIENTS, range(60))
                for name, capture in captures.items():
                    compared = await compare(router, name, capture)
                    assert compared.equal, compared
                    assert capture.faults == []
        removed = sum(capture.removed for capture in captures.values())
    exact = sum(answer.error_tokens == 0 for answer in answers)
    say(f"the index was the engines' at 8 quiet points, {removed} blocks evicted; {exact} of 240 exact")
    assert removed > 0
    assert near(answers) >= 0.99 * len(answers)


async def test_without_events_predictions_come_near_and_correct_themselves(
    say: Callable[[str], None], tmp_path: Path, engines: list[Engine], model: Path
) -> None:
    requests = workload(5)
    named = [f"w{at}={one.url}" for at, one in enumerate(engines)]
    flags = (*FLAGS, "--tokenizer", str(model), "--kv-events", "off")
    async with Router(tmp_path / "log", named, *flags) as router:
        await router.sees_ready(len(engines))
        await play(router.port, requests, CLIENTS, range(60))
        before = await play(router.port, requests, CLIENTS, range(60))
        for engine in engines:
            await vllm.forget(engine.port)
        await play(router.port, requests, CLIENTS, range(40))
        after = await play(router.port, requests, CLIENTS, range(60))
    say(f"without events {near(before)} of 60 predictions within a block, {near(after)} of 60 after a reset")
    assert near(before) >= 57
    assert near(after) >= 57
