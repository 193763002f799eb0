from types import SimpleNamespace
from typing import Any

import pytest

from warmroute.fleet import Facts, Model, State, Trust, Verdict
from warmroute.fleet.health import Status
from warmroute.metrics import ModelRung
from warmroute.server.rungs import Rungs


class FakePrompter:
    def __init__(self) -> None:
        self.reasons: tuple[str | None, str | None] = (None, None)

    def standing(self, model: str) -> tuple[str | None, str | None]:
        return self.reasons

    def set_trust(self, model: str, text: str, chat: str) -> None: ...

    def forget(self, model: str) -> None: ...


def rungs(prompter: FakePrompter, verdict: Verdict | None = None, ask: str = "auto") -> dict[str, Any]:
    trust = Trust(prompter)
    if verdict:
        trust.learn("w1", {"m": verdict})
    up = SimpleNamespace(
        health=SimpleNamespace(status=Status.UP),
        options=SimpleNamespace(models=()),
        facts=Facts((Model("m"),)),
    )
    down = SimpleNamespace(health=SimpleNamespace(status=Status.DOWN))
    fleet: Any = SimpleNamespace(states=lambda: [up, down])
    found = Rungs(prompter, fleet, trust, ask).models()
    assert [each.model for each in found] == ["m", "m"]
    return {each.prompts: each.rung for each in found}


def test_local_until_something_stands_in_the_way() -> None:
    prompter = FakePrompter()
    assert rungs(prompter) == {"texts": "local", "chats": "local"}
    verdict = Verdict(State.VERIFIED, State.UNVERIFIED, unmade="template")
    assert rungs(prompter, verdict) == {"texts": "local", "chats": "worker"}


@pytest.mark.parametrize(
    ("reason", "ask", "rung"),
    [
        ("tokens_differ", "auto", "worker"),
        ("tokens_differ", "off", "text"),
        ("no_tokenizer", "auto", "text"),
        ("no_tokenizer", "always", "worker"),
    ],
)
def test_a_worker_is_asked_as_it_is_configured(reason: str, ask: str, rung: str) -> None:
    prompter = FakePrompter()
    prompter.reasons = (reason, reason)
    assert rungs(prompter, ask=ask) == {"texts": rung, "chats": rung}


def test_workers_without_the_path_are_not_asked() -> None:
    prompter = FakePrompter()
    prompter.reasons = (None, "no_template")
    assert rungs(prompter, Verdict(lasting=True, error="404")) == {"texts": "local", "chats": "text"}


def test_the_state_is_told_beside_the_rung() -> None:
    prompter = FakePrompter()
    trust = Trust(prompter)
    trust.learn("w1", {"m": Verdict(State.VERIFIED, State.REFUSED)})
    up = SimpleNamespace(
        health=SimpleNamespace(status=Status.UP), options=SimpleNamespace(models=("m",)), facts=Facts()
    )
    fleet: Any = SimpleNamespace(states=lambda: [up])
    assert Rungs(prompter, fleet, trust, "auto").models() == [
        ModelRung("m", "texts", "local", "verified"),
        ModelRung("m", "chats", "local", "refused"),
    ]
