import asyncio
from typing import Any

import pytest

from warmroute.server.checks import Checks


class Prompter:
    def __init__(self) -> None:
        self.first: list[dict[str, Any]] = []
        self.asked = 0

    def check_stats(self) -> dict[str, Any]:
        self.asked += 1
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
    task.cancel()
