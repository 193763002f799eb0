from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.config import WorkerOptions
from warmroute.errors import ConfigError
from warmroute.fleet.discovery import PRECEDENCE, Listing, Publish, Reconciler
from warmroute.fleet.discovery import reconcile as reconcile_module
from warmroute.fleet.discovery.merge import merge
from warmroute.tasks import Tasks


class RecordedFleet:
    """What the fleet was told, with the rules that a fleet has."""

    def __init__(self) -> None:
        self.workers: dict[str, WorkerOptions] = {}
        self.sources: dict[str, str] = {}
        self.draining: set[str] = set()
        self.busy: set[str] = set()
        self.calls: list[str] = []

    def add(self, options: WorkerOptions, source: str) -> None:
        name = options.name or ""
        assert name not in self.workers
        self.calls.append(f"add {name}")
        self.workers[name], self.sources[name] = options, source

    def update(self, options: WorkerOptions, source: str) -> None:
        name = options.name or ""
        assert self.workers[name].url == options.url
        self.calls.append(f"update {name}")
        self.workers[name], self.sources[name] = options, source

    def drain(self, name: str) -> None:
        assert name in self.workers
        self.draining.add(name)

    def resume(self, name: str) -> None:
        assert name in self.workers
        self.draining.discard(name)

    def is_idle(self, name: str) -> bool:
        return name not in self.busy

    def remove(self, name: str) -> None:
        self.calls.append(f"remove {name}")
        del self.workers[name]
        self.draining.discard(name)
        self.busy.discard(name)


def listing(
    name: str, port: int = 1, *, draining: bool = False, instance: str = "", blocks: int = 9
) -> Listing:
    worker = WorkerOptions(url=f"http://h:{port}", name=name, kv_blocks=blocks)
    return Listing(worker, draining=draining, instance=instance)


@pytest.fixture
def fleet() -> RecordedFleet:
    return RecordedFleet()


@pytest.fixture
async def reconciler(fleet: RecordedFleet, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reconciler]:
    monkeypatch.setattr(reconcile_module, "IDLE_CHECK_S", 0.001)
    reconciler = Reconciler(fleet, 60, tasks=Tasks((0.001, 0.001)))
    yield reconciler
    await reconciler.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_workers_join_and_leave(fleet: RecordedFleet, reconciler: Reconciler) -> None:
    reconciler.offer("file", [listing("a", 1), listing("b", 2)])
    assert fleet.sources == {"a": "file", "b": "file"}
    reconciler.offer("file", [listing("b", 2)])
    await until(lambda: list(fleet.workers) == ["b"])
    assert fleet.draining == set()


async def test_a_worker_that_leaves_finishes_what_it_has(
    fleet: RecordedFleet, reconciler: Reconciler
) -> None:
    reconciler.offer("dns", [listing("a")])
    fleet.busy.add("a")
    reconciler.offer("dns", [])
    assert fleet.draining == {"a"}
    await asyncio.sleep(0.01)
    assert "a" in fleet.workers
    fleet.busy.clear()
    await until(lambda: not fleet.workers)


async def test_a_worker_that_never_finishes_is_forgotten_in_time(fleet: RecordedFleet) -> None:
    reconciler = Reconciler(fleet, 0.01)
    reconciler.offer("dns", [listing("a")])
    fleet.busy.add("a")
    reconciler.offer("dns", [])
    await until(lambda: not fleet.workers)


async def test_a_worker_that_returns_before_it_has_left_keeps_its_place(
    fleet: RecordedFleet, reconciler: Reconciler
) -> None:
    reconciler.offer("dns", [listing("a")])
    fleet.busy.add("a")
    reconciler.offer("dns", [])
    reconciler.offer("dns", [listing("a")])
    assert fleet.draining == set()
    fleet.busy.clear()
    await asyncio.sleep(0.01)
    assert fleet.calls == ["add a"]


async def test_one_url_in_two_sources_is_one_worker(fleet: RecordedFleet, reconciler: Reconciler) -> None:
    reconciler.offer("dns", [listing("h:1", blocks=1)])
    reconciler.offer("file", [listing("h:1", blocks=2)])
    assert fleet.calls == ["add h:1", "update h:1"]
    assert (fleet.workers["h:1"].kv_blocks, fleet.sources["h:1"]) == (2, "file")
    # The one that is not believed goes: nothing changes. The one that is believed goes: the other one counts.
    reconciler.offer("dns", [])
    assert fleet.calls == ["add h:1", "update h:1"]
    reconciler.offer("dns", [listing("h:1", blocks=1)])
    reconciler.offer("file", [])
    assert fleet.workers["h:1"].kv_blocks == 1
    assert fleet.draining == set()


async def test_another_name_is_another_worker_at_once(fleet: RecordedFleet, reconciler: Reconciler) -> None:
    reconciler.offer("file", [listing("old")])
    fleet.busy.add("old")
    reconciler.offer("file", [listing("new")])
    assert fleet.calls == ["add old", "remove old", "add new"]


async def test_another_url_or_instance_under_the_name_is_another_worker(
    fleet: RecordedFleet, reconciler: Reconciler
) -> None:
    reconciler.offer("kubernetes", [listing("a", 1, instance="u1")])
    reconciler.offer("kubernetes", [listing("a", 2, instance="u1")])
    assert fleet.calls == ["add a", "remove a", "add a"]
    reconciler.offer("kubernetes", [listing("a", 2, instance="u2")])
    assert fleet.calls[3:] == ["remove a", "add a"]


async def test_a_name_that_is_taken_gives_way_to_the_address(
    fleet: RecordedFleet, reconciler: Reconciler
) -> None:
    reconciler.offer("config", [listing("a", 1)])
    reconciler.offer("file", [listing("a", 2)])
    assert {name: options.url for name, options in fleet.workers.items()} == {
        "a": "http://h:1",
        "h:2": "http://h:2",
    }


async def test_a_worker_drains_where_any_source_says_so(fleet: RecordedFleet, reconciler: Reconciler) -> None:
    reconciler.offer("config", [listing("a")])
    reconciler.offer("kubernetes", [listing("pod", draining=True)])
    assert (fleet.draining, fleet.calls) == ({"a"}, ["add a"])
    reconciler.offer("kubernetes", [])
    assert fleet.draining == set()


async def test_a_held_worker_drains_until_no_source_lists_it(
    fleet: RecordedFleet, reconciler: Reconciler
) -> None:
    reconciler.offer("file", [listing("a")])
    reconciler.hold(listing("a").key)
    reconciler.offer("file", [listing("a"), listing("b", 2)])
    assert fleet.draining == {"a"}
    reconciler.offer("file", [listing("b", 2)])
    await until(lambda: list(fleet.workers) == ["b"])
    reconciler.offer("file", [listing("a"), listing("b", 2)])
    assert fleet.draining == set()


@pytest.mark.parametrize(
    "refusal", [ConfigError("name", "a", "a name that is free"), ValueError("a text that is none")]
)
async def test_a_worker_that_the_fleet_refuses_keeps_no_other_out(
    fleet: RecordedFleet, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    add = fleet.add

    def refuse(options: WorkerOptions, source: str) -> None:
        if options.name == "a":
            raise refusal
        add(options, source)

    monkeypatch.setattr(fleet, "add", refuse)
    reconciler.offer("file", [listing("a", 1, draining=True), listing("b", 2)])
    assert list(fleet.workers) == ["b"]
    monkeypatch.undo()
    reconciler.offer("file", [listing("a", 1), listing("b", 2)])
    assert sorted(fleet.workers) == ["a", "b"]


async def test_a_source_that_fails_is_tried_again_and_its_workers_stay(
    fleet: RecordedFleet, reconciler: Reconciler
) -> None:
    class Failing:
        name = "dns"
        runs = 0

        async def run(self, publish: Publish) -> None:
            self.runs += 1
            if self.runs == 1:
                publish([listing("a")])
            raise RuntimeError("a fault of ours")

    failing = Failing()
    reconciler.run(failing)
    await until(lambda: failing.runs >= 2)
    assert list(fleet.workers) == ["a"]
    assert reconciler._tasks.failures()["discovery"] >= 1


async def test_a_worker_that_leaves_is_forgotten_after_a_fault_of_ours(
    fleet: RecordedFleet, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> bool:
        raise RuntimeError("a fault of ours")

    reconciler.offer("dns", [listing("a")])
    monkeypatch.setattr(fleet, "is_idle", broken)
    reconciler.offer("dns", [])
    await until(lambda: reconciler._tasks.failures()["leave"] >= 2)
    assert "a" in fleet.workers
    monkeypatch.undo()
    await until(lambda: not fleet.workers)
    assert reconciler.leaving("a") is None


Sets = dict[str, list[tuple[int, int, bool]]]
SETS = st.dictionaries(
    st.sampled_from(PRECEDENCE),
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=4, unique_by=lambda e: e[1]
    ),
)


@settings(max_examples=150)
@given(st.lists(SETS, max_size=8), st.sets(st.sampled_from(["n0", "n1", "n2", "h:1", "h:2"])))
def test_after_any_history_the_fleet_is_what_is_listed(history: list[Sets], busy: set[str]) -> None:
    async def play() -> None:
        fleet = RecordedFleet()
        reconciler = Reconciler(fleet, 60)
        for sets in history:
            for source, entries in sets.items():
                reconciler.offer(source, [listing(f"n{n}", port, draining=d) for n, port, d in entries])
            fleet.busy = busy & set(fleet.workers)
        last = {source: reconciler.listed(source) for source in PRECEDENCE}
        for name in list(fleet.workers):
            if reconciler.wanted(name) is None:
                assert name in fleet.draining, "what has left takes nothing"
                reconciler.forget((fleet.workers[name].url, None))
        # The reference: who is listed, whatever happened before.
        everything = {each.key for listed in last.values() for each in listed}
        draining = {each.key for listed in last.values() for each in listed if each.draining}
        assert {(options.url, None) for options in fleet.workers.values()} == everything
        assert {(fleet.workers[name].url, None) for name in fleet.draining} == draining
        assert {name: want.listing.worker for name, want in merge(last).items()} == fleet.workers
        await reconciler.close()

    asyncio.run(play())
