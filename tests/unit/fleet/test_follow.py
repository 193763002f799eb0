from typing import Any

import pytest

from warmroute.config import WorkerOptions
from warmroute.errors import UnknownWorker, WorkerUnreachable
from warmroute.fleet.events import MirrorPort, Source
from warmroute.fleet.follow import Follower

HERE = Source("tcp://h:1", "tcp://h:2")
THERE = Source("tcp://h:3")
WORKER = WorkerOptions(url="http://h:1", name="w")


class FakeEvents:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def add(self, name: str, source: Source, mirror: MirrorPort) -> None:
        self.calls.append(("add", name, source, mirror))

    def remove(self, name: str) -> None:
        self.calls.append(("remove", name))

    def restarted(self, name: str) -> None:
        self.calls.append(("restarted", name))

    def catch_up(self, name: str) -> None:
        self.calls.append(("catch_up", name))

    def catching_up(self) -> list[str]:
        return ["w"]

    def stats(self) -> dict[str, dict[str, Any]]:
        return {}

    def confirmed(self, name: str) -> dict[str, Any] | None:
        return {"names": [7]} if name == "w" else None


class FakeClient:
    def __init__(self, sources: dict[int, Source]) -> None:
        self.sources = sources
        self.error: UnknownWorker | WorkerUnreachable | None = None

    async def event_sources(self, worker: WorkerOptions) -> dict[int, Source]:
        if self.error:
            raise self.error
        return self.sources


def make(name: str) -> Any:
    if name == "gone":
        raise UnknownWorker(name)
    return f"mirror of {name}"


async def test_a_source_is_followed_once_and_anew_where_it_changes() -> None:
    events, client = FakeEvents(), FakeClient({0: HERE})
    follower = Follower(events, client, make)
    assert await follower.learn("w", WORKER) == [0]
    assert await follower.learn("w", WORKER) == [0]
    client.sources = {0: THERE}
    await follower.learn("w", WORKER)
    assert events.calls == [("add", "w", HERE, "mirror of w"), ("add", "w", THERE, "mirror of w")]


async def test_each_rank_has_its_own_source() -> None:
    events = FakeEvents()
    follower = Follower(events, FakeClient({0: HERE, 1: THERE}), make)
    assert await follower.learn("w", WORKER) == [0, 1]
    second = WorkerOptions(url="http://h:1", name="w@1", dp_rank=1)
    assert await follower.learn("w@1", second) == [0, 1]
    assert [call[2] for call in events.calls] == [HERE, THERE]


async def test_what_is_configured_stands_above_what_is_said() -> None:
    events = FakeEvents()
    follower = Follower(events, FakeClient({0: HERE}), make)
    worker = WorkerOptions(url="http://h:1", name="w", kv_events_endpoint="tcp://x:1")
    assert await follower.learn("w", worker) == []
    assert events.calls[0][2] == Source("tcp://x:1")


async def test_a_worker_without_events_is_not_followed(caplog: pytest.LogCaptureFixture) -> None:
    events, client = FakeEvents(), FakeClient({})
    follower = Follower(events, client, make)
    await follower.learn("none", WORKER)
    client.error = WorkerUnreachable("no")
    await follower.learn("failed", WORKER)
    client.error, client.sources = None, {0: HERE}
    await follower.learn("gone", WORKER)
    assert events.calls == []
    assert "no KV events" in caplog.text
    for name in ("none", "failed", "gone"):
        follower.came_up(name)
        follower.restarted(name)
        follower.forget(name)
    assert events.calls == []


async def test_changes_are_passed_on() -> None:
    events = FakeEvents()
    follower = Follower(events, FakeClient({0: HERE}), make)
    await follower.learn("w", WORKER)
    follower.came_up("w")
    follower.restarted("w")
    follower.forget("w")
    follower.forget("w")
    assert events.calls[1:] == [("catch_up", "w"), ("restarted", "w"), ("remove", "w")]
    assert follower.catching_up() == ["w"]
    assert (follower.confirmed("w"), follower.confirmed("x")) == ({"names": [7]}, None)
