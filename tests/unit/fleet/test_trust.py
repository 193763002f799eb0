import io
import random
from collections.abc import Iterator

import pytest

from tests.support.prompter import ToldPrompter
from warmroute import logs
from warmroute.fleet import State, Trust, Verdict
from warmroute.fleet.canaries import Canary
from warmroute.fleet.verdict import Difference

DIFFERENCE = Difference(Canary("digits", "/v1/completions", {"prompt": "1 22"}), 4, 17, 18)
GOOD = Verdict(State.VERIFIED, State.VERIFIED)
NONE = Verdict(error="/tokenize answers 404", lasting=True)
BAD = Verdict(State.REFUSED, State.REFUSED, DIFFERENCE)
TEMPLATE = Verdict(State.VERIFIED, State.REFUSED, DIFFERENCE)


@pytest.fixture
def prompter() -> ToldPrompter:
    return ToldPrompter()


@pytest.fixture
def trust(prompter: ToldPrompter) -> Trust:
    return Trust(prompter)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs.setup("info", "human", stream)
    yield stream
    logs.setup()


def test_one_worker_that_disagrees_turns_the_model_off_and_no_other(
    trust: Trust, prompter: ToldPrompter, log: io.StringIO
) -> None:
    trust.learn("w1", {"a": GOOD, "b": GOOD})
    trust.learn("w2", {"a": BAD})
    assert prompter.told == {"a": ("refused", "refused"), "b": ("verified", "verified")}
    trust.forget("w2")
    assert prompter.told["a"] == ("verified", "verified")
    trust.forget("w1")
    assert prompter.told == {}
    assert "local tokens are on again" in log.getvalue()


def test_a_template_that_differs_is_for_chats(trust: Trust, prompter: ToldPrompter) -> None:
    trust.learn("w1", {"a": GOOD})
    trust.learn("w2", {"a": TEMPLATE})
    assert prompter.told == {"a": ("verified", "refused")}


def test_it_is_said_once_and_loudly(trust: Trust, log: io.StringIO) -> None:
    trust.learn("w1", {"a": BAD, "adapter": BAD})
    trust.learn("w2", {"a": BAD})
    trust.learn("w1", {"a": BAD, "adapter": BAD})
    (line,) = log.getvalue().splitlines()
    assert " error " in line
    for word in ("LOCAL TOKENS ARE OFF", "a, adapter", "canary=digits", "position=4", "ours=17", "theirs=18"):
        assert word in line
    assert "--tokenizer" in line
    assert "1 22" not in line


def test_many_names_are_one_line(trust: Trust, log: io.StringIO) -> None:
    trust.learn("w1", {f"m{number}": BAD for number in range(100)})
    (line,) = log.getvalue().splitlines()
    assert "and 95 more" in line


def test_a_worker_that_does_not_say_is_said_once(
    trust: Trust, prompter: ToldPrompter, log: io.StringIO
) -> None:
    for _ in range(3):
        trust.learn("silent", {"quiet": NONE})
    assert prompter.told == {"quiet": ("unverified", "unverified")}
    assert log.getvalue().count("tokens are not verified") == 1


def test_chats_that_cannot_be_rendered_are_said_once(trust: Trust, log: io.StringIO) -> None:
    for worker in ("w1", "w2"):
        trust.learn(worker, {"odd": Verdict(State.VERIFIED, State.UNVERIFIED, unmade="template")})
    assert log.getvalue().count("cannot be rendered here") == 1


def test_it_equals_the_obvious_model() -> None:
    generator = random.Random(7)
    prompter = ToldPrompter()
    trust = Trust(prompter)
    seen: dict[str, dict[str, Verdict]] = {}
    for _ in range(2_000):
        worker = generator.choice("123")
        if generator.random() < 0.3:
            trust.forget(worker)
            seen.pop(worker, None)
        else:
            models = generator.sample("ab", generator.randint(0, 2))
            verdicts = {model: generator.choice([GOOD, NONE, BAD, TEMPLATE]) for model in models}
            trust.learn(worker, verdicts)
            seen[worker] = verdicts
        expected = {}
        for model in "ab":
            said = [verdicts[model] for verdicts in seen.values() if model in verdicts]
            if said:
                expected[model] = (_worst([v.text for v in said]), _worst([v.chat for v in said]))
        assert prompter.told == expected
        assert all(trust.state(model) == expected[model] for model in expected)


def _worst(states: list[State]) -> str:
    if State.REFUSED in states:
        return "refused"
    return "verified" if State.VERIFIED in states else "unverified"
