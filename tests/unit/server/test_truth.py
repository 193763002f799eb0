import asyncio
from typing import Any

import pytest

from warmroute.server import truth as truth_module
from warmroute.server.truth import Truth, advice
from warmroute.tasks import Tasks, stop

FINE: dict[str, Any] = {
    "odd_blocks": 0,
    "odd_block_size": 0,
    "faults": 0,
    "fault": None,
    "age_s": 1.0,
    "losses": 0,
    "forgotten_blocks": 0,
}


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (None, "--kv-events-config"),
        ({**FINE, "odd_blocks": 3, "odd_block_size": 32}, "block_size to 32"),
        ({**FINE, "faults": 1, "fault": "the bytes end early"}, "the bytes end early"),
        ({**FINE, "age_s": None}, "kv_events_endpoint"),
        ({**FINE, "losses": 2}, "replay_endpoint"),
        ({**FINE, "losses": 1, "forgotten_blocks": 500}, "index_bytes"),
        (FINE, "--tokenizer"),
    ],
)
def test_the_advice_names_what_to_change(events: dict[str, Any] | None, words: str) -> None:
    assert words in advice(events)


def test_a_fault_is_said_once_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    workers = [{"name": "a", "suspect": True}, {"name": "b", "suspect": False}]
    truth = Truth(lambda: workers, lambda: {"a": FINE})
    truth.look()
    truth.look()
    assert caplog.text.count("predictions for the worker are wrong") == 1
    workers[0]["suspect"] = False
    truth.look()
    workers[0]["suspect"] = True
    truth.look()
    assert caplog.text.count("predictions for the worker are wrong") == 2


async def test_a_fault_of_ours_does_not_end_the_watch(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truth_module, "INTERVAL_S", 0.001)
    answers: list[Any] = [RuntimeError("a fault of ours"), [{"name": "a", "suspect": True}]]

    def workers() -> list[dict[str, Any]]:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    tasks = Tasks((0.001, 0.001))
    task = tasks.start("truth", Truth(workers, lambda: {"a": FINE}).watch)
    async with asyncio.timeout(10):
        while "predictions for the worker are wrong" not in caplog.text:
            await asyncio.sleep(0.001)
    assert tasks.failures()["truth"] == 1
    await stop([task])
