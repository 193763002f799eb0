import asyncio
from collections.abc import Awaitable, Callable

import pytest

from warmroute.tasks import KINDS, Tasks, stop


class Failing:
    """What fails some times, and then runs on."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.runs = asyncio.Event()

    async def run(self) -> None:
        if self.left:
            self.left -= 1
            raise RuntimeError("a fault of ours")
        self.runs.set()
        await asyncio.Event().wait()


async def test_what_fails_is_started_again_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    tasks, failing = Tasks((0.001, 0.002)), Failing(3)
    task = tasks.start("look", failing.run, worker="w1")
    async with asyncio.timeout(10):
        await failing.runs.wait()
    assert tasks.failures() == {**dict.fromkeys(KINDS, 0), "look": 3}
    assert [record.exc_info is not None for record in caplog.records] == [True] * 3
    assert "a fault of ours" in caplog.text
    assert task.get_name() == "look w1"
    await stop([task])
    assert task.cancelled()


async def test_what_returns_has_ended() -> None:
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1

    tasks = Tasks()
    await tasks.start("scrape", run)
    assert (runs, tasks.failures()["scrape"]) == (1, 0)


async def pauses(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[], Awaitable[None]], count: int
) -> list[float]:
    """How long is waited after each of so many failures."""
    waited: list[float] = []
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == count:
            enough.set()
            await asyncio.Event().wait()

    monkeypatch.setattr("warmroute.tasks.asyncio.sleep", sleep)
    task = Tasks((1.0, 6.0)).start("truth", run)
    async with asyncio.timeout(10):
        await enough.wait()
    await stop([task])
    return waited


async def test_pauses_grow_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await pauses(monkeypatch, Failing(9).run, 5) == [1, 2, 4, 6, 6]


async def test_a_task_that_ran_for_long_starts_with_a_short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, now, runs = asyncio.get_running_loop(), 0.0, 0

    async def run() -> None:
        nonlocal now, runs
        runs += 1
        now += 7.0 if runs == 4 else 0.0
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(loop, "time", lambda: now)
    # The loop's own timers stand still with it: nothing here waits for one.
    waited: list[float] = []
    ended = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 5:
            ended.set()
            await asyncio.Event().wait()

    monkeypatch.setattr("warmroute.tasks.asyncio.sleep", sleep)
    task = Tasks((1.0, 6.0)).start("truth", run)
    await ended.wait()
    await stop([task])
    assert waited == [1, 2, 4, 1, 2]
