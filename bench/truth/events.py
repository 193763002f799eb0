"""With KV events: resets and a restart in the middle of the requests, the index compared again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.truth.fleet import Workers
from tests.support.answers import Answer, play
from tests.support.process import Router
from tests.support.truth import Compared
from tests.support.workload import Workload

# Requests between two quiet points.
QUIET_EVERY = 100


Happening = Callable[[], Coroutine[None, None, None]]


@dataclass
class Played:
    """What became of one phase."""

    phase: str
    answers: list[Answer]
    seconds: float
    compared: list[Compared] = field(default_factory=list)
    blind: tuple[str, float, float] | None = None
    """A worker, and from when to when its cache was empty and it had not said so."""

    def unseen(self, answer: Answer) -> bool:
        """Whether the answer's cache was emptied in between: the engine tells it with its next step."""
        if self.blind is None:
            return False
        worker, began, ended = self.blind
        return answer.worker == worker and answer.began < ended and answer.ended > began


async def run(workers: Workers, log: Path, requests: int, clients: int, seed: int) -> list[Played]:
    """Plays everything: a quarter of the requests with each thing that happens, a few with another router."""
    workload = Workload(seed)
    async with workers.routed(log) as router:
        phases = _Phases(workers, router, workload, requests // 4, clients)
        await phases.play("start")
        await phases.play("after a reset at rest", at_rest=partial(workers.reset, "w0"), blind="w0")
        await phases.play(
            "reset under load", under_load=partial(workers.reset, "w1", running=True), blind="w1"
        )
        await phases.play("restart of a worker under load", under_load=partial(workers.restart, "w0"))
    async with workers.routed(log.with_suffix(".again"), "--warm-timeout-ms", "60000") as router:
        phases.router, phases.requests = router, QUIET_EVERY
        await phases.play("restart of the router", at_rest=phases.compare)
    return phases.played


@dataclass
class _Phases:
    workers: Workers
    router: Router
    workload: Workload
    requests: int
    clients: int
    played: list[Played] = field(default_factory=list)

    async def play(
        self,
        phase: str,
        *,
        at_rest: Happening | None = None,
        under_load: Happening | None = None,
        blind: str | None = None,
    ) -> None:
        """Plays a phase in which something happens, before its first request or among them.

        `blind` names the worker whose cache that empties.
        """
        began = happened = time.monotonic()
        played = Played(phase, [], 0.0)
        self.played.append(played)
        cleared = self.workers.captures[blind].cleared if blind else 0
        happens: asyncio.Future[None] | None = None
        if at_rest is not None:
            await at_rest()
        while len(played.answers) < self.requests:
            if under_load is not None and happens is None and len(played.answers) >= self.requests // 4:
                happened = time.monotonic()
                happens = asyncio.ensure_future(under_load())
            played.answers += await self._some(self.requests - len(played.answers))
            await self.compare()
        if happens is not None:
            await happens
            await self.router.sees_ready(len(self.workers.engines), seconds=60)
            played.answers += await self._some(QUIET_EVERY)
            await self.compare()
        if blind:
            capture = self.workers.captures[blind]
            assert capture.cleared > cleared, f"{blind} has not said that it is empty"
            played.blind = (blind, happened, capture.cleared_at)
        played.seconds = time.monotonic() - began

    async def compare(self) -> None:
        """Compares what is known before any request of this phase."""
        self.played[-1].compared += await self.workers.compare(self.router)

    async def _some(self, left: int) -> list[Answer]:
        wanted = range(min(left, QUIET_EVERY))
        return await play(self.router.port, self.workload, self.clients, wanted)
