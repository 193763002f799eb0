"""Without KV events: what is predicted alone, and how long it takes to see that a cache was emptied."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.truth.events import Played
from bench.truth.fleet import Workers
from tests.support.answers import play, seconds
from tests.support.workload import Workload

# How long a router may take to know its workers, and to see that they know nothing.
LEARN_S, CORRECT_S = 60.0, 10.0


async def run(workers: Workers, log: Path, duration_s: float, clients: int, seed: int) -> list[Played]:
    """Plays on workers that hold what the router has not sent, and empties their caches in the middle."""
    workload = Workload(seed)
    played: list[Played] = []

    async with workers.routed(log, "--kv-events", "off") as router:

        async def phase(name: str, duration: float) -> None:
            began = time.monotonic()
            answers = await play(router.port, workload, clients, seconds(duration))
            played.append(Played(name, answers, time.monotonic() - began))

        await phase("the first minute", LEARN_S)
        await phase("after a minute", duration_s)
        await asyncio.gather(*(workers.reset(name) for name in workers.engines))
        await phase("10 s after a reset", CORRECT_S)
        await phase("after that", duration_s)
    return played
