import asyncio
import io
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from tests.support.prompter import ToldPrompter
from warmroute import logs
from warmroute.config import FleetOptions, WorkerOptions
from warmroute.errors import WorkerUnreachable
from warmroute.fleet import Facts, Fleet, Model, State, Trust, Verdict
from warmroute.fleet import fleet as fleet_module

OPTIONS = FleetOptions(probe_interval_ms=50, probe_jitter=1.0)
W1 = WorkerOptions(url="http://h:1", name="w1")
FACTS = Facts(
    (Model("llama", max_model_len=8192),), block_size=16, kv_blocks=100, prefix_caching=True, started=1.0
)


class FakeRouter:
    def __init__(self) -> None:
        self.workers: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []

    def add_worker(self, name: str, **what: Any) -> None:
        assert name not in self.workers
        self.calls.append("add")
        self.workers[name] = {"ready": False, **what}

    def update_worker(self, name: str, **what: Any) -> None:
        self.calls.append("update")
        self.workers[name].update(what)

    def set_ready(self, name: str, ready: bool) -> None:
        self.calls.append("ready" if ready else "not ready")
        self.workers[name]["ready"] = ready

    def drain_worker(self, name: str) -> None:
        self.workers[name]["draining"] = True

    def resume_worker(self, name: str) -> None:
        self.workers[name]["draining"] = False

    def worker_activity(self, name: str) -> tuple[int, int, float]:
        return self.workers[name].get("requests", 0), 0, 0.0

    def remove_worker(self, name: str) -> None:
        self.calls.append("remove")
        del self.workers[name]


class FakeClient:
    def __init__(self) -> None:
        self.up = False
        self.reply = FACTS
        self.looks = 0
        self.broken = False
        self.failing = 0
        self.on_failure: Callable[[], None] = lambda: None

    async def health(self, worker: WorkerOptions) -> None:
        self.looks += 1
        if self.broken:
            raise RuntimeError("a fault of ours")
        if not self.up or self.failing:
            self.failing = max(0, self.failing - 1)
            self.on_failure()
            raise WorkerUnreachable("refused")

    async def facts(self, worker: WorkerOptions) -> Facts:
        return self.reply


@pytest.fixture
def router() -> FakeRouter:
    return FakeRouter()


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
async def fleet(router: FakeRouter, client: FakeClient) -> AsyncIterator[Fleet]:
    fleet = Fleet(router, client, OPTIONS, block_size=16)
    yield fleet
    await fleet.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def looks(client: FakeClient, count: int) -> None:
    """Wait until so many looks were taken and the last one was acted upon."""
    enough = client.looks + count + 1
    await until(lambda: client.looks >= enough)


async def test_a_worker_that_is_down_at_the_start_is_taken_in_later(
    fleet: Fleet, router: FakeRouter, client: FakeClient
) -> None:
    fleet.add(W1)
    await looks(client, 2)
    assert not router.workers["w1"]["ready"]
    assert not fleet.is_ready()
    client.up = True
    await until(lambda: bool(router.workers["w1"]["ready"]))
    assert fleet.is_ready()
    told = router.workers["w1"]
    assert (told["kv_blocks"], told["models"], told["max_model_len"]) == (100, ("llama",), 8192)


async def test_what_is_configured_wins_over_what_is_learnt(
    fleet: Fleet, router: FakeRouter, client: FakeClient
) -> None:
    client.up = True
    fleet.add(WorkerOptions(url="http://h:1", name="w1", kv_blocks=7, models=("other",), max_requests=3))
    await until(lambda: bool(router.workers["w1"]["ready"]))
    told = router.workers["w1"]
    assert (told["kv_blocks"], told["models"], told["block_size"], told["max_requests"]) == (
        7,
        ("other",),
        16,
        3,
    )


async def test_a_worker_is_out_after_three_failed_looks(
    fleet: Fleet, router: FakeRouter, client: FakeClient
) -> None:
    client.up = True
    fleet.add(W1)
    await until(lambda: bool(router.workers["w1"]["ready"]))
    ready_at_failures: list[bool] = []
    client.on_failure = lambda: ready_at_failures.append(router.workers["w1"]["ready"])
    client.up = False
    await until(lambda: len(ready_at_failures) >= 5)
    assert ready_at_failures[:5] == [True, True, True, False, False]
    assert fleet.states()[0].error == "refused"


async def test_a_worker_that_was_restarted_quickly_has_lost_its_cache(
    fleet: Fleet, router: FakeRouter, client: FakeClient
) -> None:
    client.up = True
    fleet.add(W1)
    await until(fleet.is_ready)
    client.reply = Facts(FACTS.models, block_size=16, kv_blocks=200, started=2.0)
    client.failing = 1
    await until(lambda: "not ready" in router.calls[router.calls.index("ready") :])
    await until(lambda: bool(router.workers["w1"]["ready"]))
    assert router.workers["w1"]["kv_blocks"] == 200


async def test_a_short_failure_of_the_same_process_keeps_what_it_holds(
    fleet: Fleet, router: FakeRouter, client: FakeClient
) -> None:
    client.up = True
    fleet.add(W1)
    await until(fleet.is_ready)
    client.failing = 1
    await until(lambda: router.calls.count("update") == 2)
    assert router.calls.count("not ready") == 1


async def test_another_block_size_is_said_once(fleet: Fleet, router: FakeRouter, client: FakeClient) -> None:
    stream = io.StringIO()
    logs.setup("warning", "human", stream)
    client.up = True
    client.reply = Facts(FACTS.models, block_size=32, kv_blocks=50, prefix_caching=False)
    fleet.add(WorkerOptions(url="http://h:1", name="other-blocks"))
    await until(fleet.is_ready)
    client.up = False
    await until(lambda: fleet.states()[0].error != "")
    client.up = True
    await until(lambda: fleet.states()[0].error == "")
    text = stream.getvalue()
    assert text.count("block size differs") == 1
    assert text.count("KV blocks") == 0
    assert text.count("prefix caching off") == 1
    assert (router.workers["other-blocks"]["kv_blocks"], router.workers["other-blocks"]["block_size"]) == (
        100,
        16,
    )


async def test_a_worker_that_hides_its_capacity_is_used_and_said(
    fleet: Fleet, router: FakeRouter, client: FakeClient
) -> None:
    stream = io.StringIO()
    logs.setup("warning", "human", stream)
    client.up, client.reply = True, Facts(FACTS.models)
    fleet.add(WorkerOptions(url="http://h:1", name="silent"))
    await until(fleet.is_ready)
    assert stream.getvalue().count("KV blocks are not known") == 1
    assert router.workers["silent"]["kv_blocks"] is None


class FakeVerifier:
    """Gives a verdict when it is let go."""

    def __init__(self, router: FakeRouter) -> None:
        self.router = router
        self.verdict = Verdict(State.VERIFIED, State.VERIFIED)
        self.asked: list[tuple[list[str], bool]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def verify(self, worker: WorkerOptions, models: Sequence[Model]) -> dict[str, Verdict]:
        names = [model.id for model in models]
        self.asked.append((names, self.router.workers["w1"]["ready"]))
        await self.gate.wait()
        return dict.fromkeys(names, self.verdict)


@pytest.fixture
def verifier(router: FakeRouter) -> FakeVerifier:
    return FakeVerifier(router)


@pytest.fixture
def prompter() -> ToldPrompter:
    return ToldPrompter()


@pytest.fixture
async def verifying(
    router: FakeRouter, client: FakeClient, verifier: FakeVerifier, prompter: ToldPrompter
) -> AsyncIterator[Fleet]:
    fleet = Fleet(router, client, OPTIONS, block_size=16, verifier=verifier, trust=Trust(prompter))
    yield fleet
    await fleet.close()


async def test_a_worker_is_compared_before_it_is_ready(
    verifying: Fleet, router: FakeRouter, client: FakeClient, verifier: FakeVerifier, prompter: ToldPrompter
) -> None:
    verifier.gate.clear()
    client.up = True
    verifying.add(W1)
    await until(lambda: bool(verifier.asked))
    assert not router.workers["w1"]["ready"]
    verifier.gate.set()
    await until(lambda: bool(router.workers["w1"]["ready"]))
    assert prompter.told == {"llama": ("verified", "verified")}
    client.failing = 1
    await until(lambda: router.calls.count("update") == 2)
    await looks(client, 1)
    # The same process was not there for a moment: it is not compared again.
    assert verifier.asked == [(["llama"], False)]


async def test_a_worker_that_was_restarted_is_compared_while_it_takes_nothing(
    verifying: Fleet, router: FakeRouter, client: FakeClient, verifier: FakeVerifier, prompter: ToldPrompter
) -> None:
    client.up = True
    verifying.add(W1)
    await until(lambda: bool(router.workers["w1"]["ready"]))
    client.reply = Facts(FACTS.models, block_size=16, kv_blocks=200, started=2.0)
    verifier.verdict = Verdict(State.VERIFIED, State.REFUSED)
    client.failing = 1
    await until(lambda: len(verifier.asked) == 2 and bool(router.workers["w1"]["ready"]))
    assert verifier.asked[1] == (["llama"], False)
    assert prompter.told == {"llama": ("verified", "refused")}


async def test_what_a_worker_said_is_forgotten_with_it(
    verifying: Fleet, router: FakeRouter, client: FakeClient, prompter: ToldPrompter
) -> None:
    client.up = True
    verifying.add(W1)
    await until(lambda: bool(router.workers["w1"]["ready"]))
    client.up = False
    await until(lambda: not router.workers["w1"]["ready"])
    assert prompter.told == {}
    client.up = True
    await until(lambda: bool(prompter.told))
    verifying.remove("w1")
    assert prompter.told == {}


@pytest.mark.parametrize(("lasting", "again"), [(True, False), (False, True)])
async def test_a_worker_that_did_not_say_is_asked_again_unless_it_cannot(
    verifying: Fleet,
    client: FakeClient,
    verifier: FakeVerifier,
    monkeypatch: pytest.MonkeyPatch,
    lasting: bool,
    again: bool,
) -> None:
    monkeypatch.setattr(fleet_module, "VERIFY_AGAIN_S", 0.0)
    verifier.verdict = Verdict(error="slow", lasting=lasting)
    client.up = True
    verifying.add(W1)
    await until(lambda: bool(verifier.asked))
    await looks(client, 2)
    assert (len(verifier.asked) > 1) == again


async def test_the_longest_context_is_learnt_from_tokens(
    verifying: Fleet, router: FakeRouter, client: FakeClient, verifier: FakeVerifier
) -> None:
    client.up, client.reply = True, Facts((Model("llama"),), block_size=16, kv_blocks=100, started=1.0)
    verifier.verdict = Verdict(State.VERIFIED, State.VERIFIED, max_model_len=4096)
    verifying.add(W1)
    await until(lambda: bool(router.workers["w1"]["ready"]))
    assert router.workers["w1"]["max_model_len"] == 4096


async def test_a_fault_in_a_look_does_not_end_the_watch(
    fleet: Fleet, router: FakeRouter, client: FakeClient
) -> None:
    client.broken = True
    fleet.add(W1)
    await looks(client, 1)
    client.broken, client.up = False, True
    await until(lambda: bool(router.workers["w1"]["ready"]))


async def test_a_removed_worker_is_no_longer_watched(
    fleet: Fleet, router: FakeRouter, client: FakeClient
) -> None:
    fleet.add(W1)
    await looks(client, 1)
    fleet.remove("w1")
    assert router.workers == {}
    assert fleet.states() == []
