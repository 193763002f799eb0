import asyncio
from typing import Any

import pytest

from warmroute.server.checks import Checks
from warmroute.tasks import Tasks, stop


class Prompter:
    def __init__(self) -> None:
        self.first: list[dict[str, Any]] = []
        self.asked = 0
        self.broken = False

    def check_stats(self) -> dict[str, Any]:
        self.asked += 1
        if self.broken:
            raise RuntimeError("a fault of ours")
        return {"checks": 2, "mismatches": len(self.first), "skipped": 0, "failed": 0, "first": self.first}


def test_the_first_difference_of_a_model_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    prompter = Prompter()
    checks = Checks(prompter)
    assert checks.read()["checks"] == 2
    assert caplog.messages == []
    prompter.first = [{"model": "checked-model", "position": 7, "used": 1, "expected": None}]
    assert checks.read()["mismatches"] == 1
    checks.read()
    assert len(caplog.messages) == 1
    assert "differ from the reference" in caplog.messages[0]


async def test_the_log_does_not_wait_for_a_scrape() -> None:
    prompter = Prompter()
    task = asyncio.create_task(Checks(prompter).watch())
    while not prompter.asked:
        await asyncio.sleep(0)
    await stop([task])


async def test_a_fault_of_ours_does_not_end_the_watch() -> None:
    prompter = Prompter()
    prompter.broken = True
    tasks = Tasks((0.001, 0.001))
    task = tasks.start("checks", Checks(prompter).watch)
    async with asyncio.timeout(10):
        while not tasks.failures()["checks"]:
            await asyncio.sleep(0.001)
        prompter.broken, prompter.asked = False, 0
        while not prompter.asked:
            await asyncio.sleep(0.001)
    await stop([task])
