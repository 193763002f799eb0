import asyncio
import io
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support.prompter import ToldPrompter
from warmroute import logs
from warmroute.config import FleetOptions, WorkerOptions
from warmroute.errors import WorkerTimeout, WorkerUnreachable
from warmroute.fleet import Facts, Fleet, Model, State, Trust, Verdict, WorkerState
from warmroute.fleet import fleet as fleet_module
from warmroute.fleet.gauges import Gauges
from warmroute.fleet.health import Status
from warmroute.tasks import Tasks

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
        worker = self.workers[name]
        return worker.get("requests", 0), worker.get("moves", 0), worker.get("wait", 0.0)

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
        self.computes = True
        self.learnt = 0
        self.trials: list[str] = []
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
        self.learnt += 1
        return self.reply

    async def trial(self, worker: WorkerOptions, model: str) -> None:
        self.trials.append(model)
        if not self.computes:
            raise WorkerTimeout("no token")


@pytest.fixture
def router() -> FakeRouter:
    return FakeRouter()


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
async def fleet(router: FakeRouter, client: FakeClient) -> AsyncIterator[Fleet]:
    fleet = Fleet(router, client, OPTIONS, block_size=16, tasks=Tasks((0.001, 0.001)))
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
    await until(lambda: client.learnt == 2)
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
    await until(lambda: client.learnt == 2)
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
    assert fleet._runner.failures()["look"] >= 1
    client.broken, client.up = False, True
    await until(lambda: bool(router.workers["w1"]["ready"]))


class SlowToLearn(FakeClient):
    """Of two workers, one tells what it serves when `told` is set; either can be down."""

    def __init__(self) -> None:
        super().__init__()
        self.up = True
        self.down: set[str] = set()
        self.told = asyncio.Event()
        self.waiting = 0

    async def health(self, worker: WorkerOptions) -> None:
        await super().health(worker)
        if worker.name in self.down:
            raise WorkerUnreachable("refused")

    async def facts(self, worker: WorkerOptions) -> Facts:
        if worker.name == "slow":
            self.waiting += 1
            await self.told.wait()
        return await super().facts(worker)


@pytest.mark.parametrize("slow_is_up", [False, True])
async def test_a_worker_that_is_slow_to_learn_keeps_no_look_at_others_waiting(
    router: FakeRouter, slow_is_up: bool
) -> None:
    client = SlowToLearn()
    one_turn = replace(OPTIONS, probe_concurrency=1, facts_interval_ms=1_000)
    fleet = Fleet(router, client, one_turn, block_size=16)
    if slow_is_up:
        client.told.set()
        fleet.add(replace(W1, name="slow", url="http://h:2"))
        await until(lambda: bool(router.workers["slow"]["ready"]))
        client.told.clear()
        client.waiting = 0
    fleet.add(W1)
    await until(lambda: bool(router.workers["w1"]["ready"]))
    if not slow_is_up:
        fleet.add(replace(W1, name="slow", url="http://h:2"))
    await until(lambda: client.waiting > 0)
    client.down.add("w1")
    await until(lambda: not router.workers["w1"]["ready"])
    # Learning what it serves waits for its turn, where it is not up, and no longer.
    client.down.clear()
    if slow_is_up:
        await until(lambda: bool(router.workers["w1"]["ready"]))
    client.told.set()
    await until(lambda: all(bool(worker["ready"]) for worker in router.workers.values()))
    await fleet.close()


async def test_a_worker_that_is_up_is_looked_at_while_its_turn_to_learn_is_taken(router: FakeRouter) -> None:
    client = SlowToLearn()
    client.told.set()
    fleet = Fleet(router, client, replace(OPTIONS, probe_concurrency=1), block_size=16)
    fleet.add(W1)
    fleet.add(replace(W1, name="slow", url="http://h:2"))
    await until(lambda: all(bool(worker["ready"]) for worker in router.workers.values()))
    client.told.clear()
    client.waiting, learnt = 0, client.learnt
    fleet.states()[1].stale = True
    await until(lambda: client.waiting > 0)
    fleet.states()[0].stale = True
    await looks(client, 2)
    assert (client.learnt, router.workers["w1"]["ready"]) == (learnt, True)
    client.down.add("w1")
    await until(lambda: not router.workers["w1"]["ready"])
    client.told.set()
    await fleet.close()


async def test_a_restart_is_not_missed_for_want_of_a_turn_to_learn(router: FakeRouter) -> None:
    client = SlowToLearn()
    client.told.set()
    client.reply = Facts(FACTS.models)  # no start is told: only refused connections say that it began anew
    fleet = Fleet(router, client, replace(OPTIONS, probe_concurrency=1), block_size=16)
    fleet.add(W1)
    fleet.add(replace(W1, name="slow", url="http://h:2"))
    await until(lambda: all(bool(worker["ready"]) for worker in router.workers.values()))
    client.told.clear()
    client.waiting = 0
    fleet.states()[1].stale = True
    await until(lambda: client.waiting > 0)
    router.calls.clear()
    client.failing = 1
    await until(lambda: client.failing == 0)
    await looks(client, 2)
    assert "not ready" not in router.calls
    client.told.set()
    await until(lambda: "not ready" in router.calls)
    await until(lambda: bool(router.workers["w1"]["ready"]))
    await fleet.close()


async def test_a_removed_worker_is_no_longer_watched(
    fleet: Fleet, router: FakeRouter, client: FakeClient
) -> None:
    fleet.add(W1)
    await looks(client, 1)
    fleet.remove("w1")
    assert router.workers == {}
    assert fleet.states() == []


class Hanging(FakeClient):
    """A worker that is up and, while `hangs`, takes connections and answers nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.up = True
        self.hangs = False

    async def health(self, worker: WorkerOptions) -> None:
        await super().health(worker)
        if self.hangs:
            self.on_failure()
            raise WorkerTimeout("/health does not answer in time")


class HandScraper:
    """One that says what a test says."""

    def __init__(self) -> None:
        self.saw: dict[str, Callable[[Gauges], None]] = {}

    def add(self, state: WorkerState, saw: Callable[[Gauges], None]) -> None:
        self.saw[state.name] = saw

    def remove(self, name: str) -> None:
        del self.saw[name]

    def page(self, steps: float | None, started: float | None = 1.0) -> bool:
        """The worker's metrics are read; never true, so that they are read until something else is."""
        self.saw["w1"](Gauges(1, 0.0, steps, started))
        return False


@pytest.fixture
def hanging() -> Hanging:
    return Hanging()


@pytest.fixture
def scraper() -> HandScraper:
    return HandScraper()


@pytest.fixture
async def patient(router: FakeRouter, hanging: Hanging, scraper: HandScraper) -> AsyncIterator[Fleet]:
    options = FleetOptions(probe_interval_ms=50, probe_jitter=1.0, freeze_timeout_ms=300)
    fleet = Fleet(router, hanging, options, block_size=16, scraper=scraper)
    fleet.add(W1)
    await until(fleet.is_ready)
    yield fleet
    await fleet.close()


async def test_a_worker_in_a_long_prefill_stays_although_it_does_not_answer(
    patient: Fleet, router: FakeRouter, hanging: Hanging
) -> None:
    # One request, whose prefill is expected to take a minute: half of it may be wrong.
    router.workers["w1"].update(requests=1, wait=60.0)
    hanging.hangs = True
    await looks(hanging, 12)
    (state,) = patient.states()
    assert router.workers["w1"]["ready"]
    assert (state.slow, state.health.failures) == (True, 0)
    assert "slow" in state.error
    hanging.hangs = False
    await until(lambda: not state.slow)
    assert state.error == ""


async def test_a_worker_whose_requests_move_stays_although_it_does_not_answer(
    patient: Fleet, router: FakeRouter, hanging: Hanging
) -> None:
    router.workers["w1"].update(requests=3, moves=0)

    def token() -> None:
        router.workers["w1"]["moves"] += 1

    hanging.on_failure, hanging.hangs = token, True
    await looks(hanging, 20)
    assert router.workers["w1"]["ready"]


async def test_a_worker_that_takes_connections_and_moves_nothing_goes_out(
    patient: Fleet, router: FakeRouter, hanging: Hanging
) -> None:
    router.workers["w1"].update(requests=1)
    hanging.hangs = True
    await until(lambda: not router.workers["w1"]["ready"])
    hanging.hangs = False
    await until(lambda: bool(router.workers["w1"]["ready"]))


async def test_a_worker_without_requests_goes_out_after_three_looks_that_hang(
    patient: Fleet, router: FakeRouter, hanging: Hanging
) -> None:
    failures: list[bool] = []
    hanging.on_failure = lambda: failures.append(router.workers["w1"]["ready"])
    hanging.hangs = True
    await until(lambda: len(failures) >= 5)
    assert failures[:5] == [True, True, True, False, False]


async def test_an_engine_that_stands_still_behind_an_api_that_answers_goes_out_and_is_tried(
    patient: Fleet, router: FakeRouter, hanging: Hanging, scraper: HandScraper
) -> None:
    hanging.computes = False
    scraper.page(7.0)
    router.workers["w1"].update(requests=1)
    # Our counts alone say nothing of replies that are not streamed.
    await looks(hanging, 12)
    assert router.workers["w1"]["ready"]
    await until(lambda: scraper.page(7.0) or not router.workers["w1"]["ready"])
    (state,) = patient.states()
    assert "makes no step" in state.error
    # Its requests are gone, and its API answers: that is not yet a sign of life.
    router.workers["w1"].update(requests=0)
    await until(lambda: len(hanging.trials) >= 3)
    assert not router.workers["w1"]["ready"]
    assert set(hanging.trials) == {"llama"}
    hanging.computes = True
    await until(lambda: bool(router.workers["w1"]["ready"]))


@pytest.mark.parametrize("sign", ["step", "token", "process"])
async def test_a_frozen_worker_that_moves_again_or_is_another_process_comes_back(
    patient: Fleet, router: FakeRouter, hanging: Hanging, scraper: HandScraper, sign: str
) -> None:
    hanging.computes = False
    router.workers["w1"].update(requests=1)
    await until(lambda: scraper.page(7.0) or not router.workers["w1"]["ready"])
    if sign == "step":
        scraper.page(8.0)
    elif sign == "token":
        router.workers["w1"].update(moves=1)
    else:
        hanging.reply = Facts(FACTS.models, block_size=16, kv_blocks=7, started=2.0)
    await until(lambda: bool(router.workers["w1"]["ready"]))
    assert router.workers["w1"]["kv_blocks"] == (7 if sign == "process" else 100)


async def test_metrics_that_are_gone_freeze_nobody(
    patient: Fleet, router: FakeRouter, hanging: Hanging, scraper: HandScraper
) -> None:
    scraper.page(7.0)
    router.workers["w1"].update(requests=1)
    await looks(hanging, 14)
    assert router.workers["w1"]["ready"]


async def test_a_page_of_another_process_is_learnt_from(
    patient: Fleet, router: FakeRouter, hanging: Hanging, scraper: HandScraper
) -> None:
    hanging.reply = Facts(FACTS.models, block_size=16, kv_blocks=7, started=2.0)
    router.calls.clear()
    scraper.page(0.0, started=2.0)
    await until(lambda: router.workers["w1"]["kv_blocks"] == 7)
    await until(lambda: router.calls[-1] == "ready")
    assert "not ready" in router.calls


async def test_a_worker_that_hides_its_start_was_restarted_where_nobody_listened(
    router: FakeRouter, client: FakeClient, fleet: Fleet
) -> None:
    client.up, client.reply = True, Facts(FACTS.models)
    fleet.add(W1)
    await until(fleet.is_ready)
    router.calls.clear()
    client.failing = 1
    await until(lambda: "not ready" in router.calls)
    await until(lambda: bool(router.workers["w1"]["ready"]))


async def test_an_adapter_that_is_loaded_later_becomes_known(router: FakeRouter, client: FakeClient) -> None:
    options = FleetOptions(probe_interval_ms=50, probe_jitter=1.0, facts_interval_ms=100)
    fleet = Fleet(router, client, options, block_size=16)
    client.up = True
    fleet.add(W1)
    await until(fleet.is_ready)
    client.reply = replace(FACTS, models=(*FACTS.models, Model("adapter", parent="llama")))
    await until(lambda: router.workers["w1"]["adapters"] == ("adapter",))
    # It is the same process: what it holds stays.
    assert "not ready" not in router.calls[router.calls.index("ready") :]
    await fleet.close()


async def test_the_time_of_asking_is_no_change(
    verifying: Fleet, router: FakeRouter, client: FakeClient, verifier: FakeVerifier
) -> None:
    client.up = True
    verifying.add(W1)
    await until(lambda: bool(router.workers["w1"]["ready"]))
    client.reply = replace(FACTS, models=(replace(FACTS.models[0], created=77),))
    client.failing = 1
    await until(lambda: client.learnt == 2)
    await looks(client, 1)
    assert len(verifier.asked) == 1


async def test_the_router_is_told_once(router: FakeRouter, client: FakeClient) -> None:
    options = FleetOptions(probe_interval_ms=50, probe_jitter=1.0, facts_interval_ms=100)
    fleet = Fleet(router, client, options, block_size=16)
    client.up = True
    fleet.add(W1)
    await until(fleet.is_ready)
    updates = router.calls.count("update")
    await looks(client, 10)
    assert router.calls.count("update") == updates
    await fleet.close()


async def test_other_options_reach_the_router_and_are_learnt_for(
    fleet: Fleet, router: FakeRouter, client: FakeClient
) -> None:
    client.up = True
    fleet.add(W1, "file")
    await until(fleet.is_ready)
    fleet.update(replace(W1, max_requests=3), "api")
    assert router.workers["w1"]["max_requests"] == 3
    assert (fleet.states()[0].source, fleet.states()[0].stale) == ("api", True)
    await until(lambda: not fleet.states()[0].stale)
    assert router.workers["w1"]["kv_blocks"] == 100


async def test_a_worker_that_drains_is_not_counted_as_ready(
    fleet: Fleet, router: FakeRouter, client: FakeClient
) -> None:
    client.up = True
    told: list[str] = []
    fleet.listen(told.append)
    fleet.add(W1)
    await until(fleet.is_ready)
    told.clear()
    fleet.drain("w1")
    assert router.workers["w1"]["draining"]
    assert not fleet.is_ready()
    assert fleet.is_idle("w1")
    router.workers["w1"]["requests"] = 1
    assert not fleet.is_idle("w1")
    fleet.resume("w1")
    assert fleet.is_ready()
    assert told == ["w1", "w1"]
    fleet.drain("w1")
    client.up = False
    # It will not finish what it has.
    await until(lambda: fleet.is_idle("w1"))


class Ranks:
    """A follower that finds two data-parallel ranks behind each URL."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []

    async def learn(self, name: str, worker: WorkerOptions) -> list[int]:
        return [0, 1]

    def came_up(self, name: str) -> None: ...

    def restarted(self, name: str) -> None: ...

    def forget(self, name: str) -> None:
        self.forgotten.append(name)


async def test_ranks_behind_one_url_come_and_go_with_it(router: FakeRouter, client: FakeClient) -> None:
    ranks = Ranks()
    fleet = Fleet(router, client, OPTIONS, block_size=16, follower=ranks)
    client.up = True
    fleet.add(W1)
    await until(lambda: set(router.workers) == {"w1", "w1@1"})
    assert [worker["dp_rank"] for worker in router.workers.values()] == [0, 1]
    fleet.update(replace(W1, max_requests=3), "api")
    assert {worker["max_requests"] for worker in router.workers.values()} == {3}
    assert [worker["dp_rank"] for worker in router.workers.values()] == [0, 1]
    fleet.drain("w1")
    assert all(worker["draining"] for worker in router.workers.values())
    router.workers["w1@1"]["requests"] = 1
    await until(lambda: all(state.health.status is Status.UP for state in fleet.states()))
    assert not fleet.is_idle("w1")
    fleet.remove("w1")
    assert router.workers == {}
    assert sorted(ranks.forgotten) == ["w1", "w1@1"]
    await fleet.close()
