from typing import Any

import pytest

from warmroute.config import WorkerOptions
from warmroute.errors import UnknownWorker, WorkerReply
from warmroute.fleet.health import Health
from warmroute.fleet.hits import Hits
from warmroute.fleet.state import WorkerState


class FakeRouter:
    """Wants some workers' counters, and keeps what it gets."""

    def __init__(self, *wanted: str) -> None:
        self.wanted = wanted
        self.observed: list[tuple[Any, ...]] = []

    def wants_hits(self, name: str) -> bool:
        if name == "left":
            raise UnknownWorker(name)
        return name in self.wanted

    def observe_hits(self, name: str, queries: int, hits: int) -> None:
        self.observed.append((name, queries, hits))


class FakeClient:
    """Has the counters of one worker; another one counts nothing, a third one does not answer."""

    async def hits(self, worker: WorkerOptions) -> tuple[int, int] | None:
        if worker.name == "broken":
            raise WorkerReply("/metrics answers 500", 500)
        return (100, 20) if worker.name == "a" else None


def state(name: str, *, up: bool = True) -> WorkerState:
    health = Health(3)
    if up:
        health.good()
    return WorkerState(WorkerOptions(url=f"http://{name}", name=name), health)


async def test_only_what_is_wanted_of_workers_that_are_up_is_read() -> None:
    router = FakeRouter("a", "broken", "uncounted", "down")
    states = [
        state("left"),
        state("broken"),
        state("uncounted"),
        state("unwanted"),
        state("down", up=False),
        state("a"),
    ]
    await Hits(router, FakeClient(), lambda: states).look()
    assert router.observed == [("a", 100, 20)]


async def test_a_look_at_nobody_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    await Hits(FakeRouter(), FakeClient(), list).look()
    assert not caplog.records
