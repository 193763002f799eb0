import json
from types import SimpleNamespace
from typing import Any

import pytest

from warmroute.config import FleetOptions, WorkerOptions
from warmroute.errors import NoEligibleWorker, UnknownModel
from warmroute.fleet import Facts, Fleet, Model, State, Trust, Verdict
from warmroute.fleet.canaries import Canary
from warmroute.fleet.health import Status
from warmroute.fleet.verdict import Difference
from warmroute.metrics import Metrics, Snapshot
from warmroute.server.control import Control
from warmroute.server.explain import Explain


class FakeRouter:
    """A router that knows two workers and explains everything alike."""

    def __init__(self) -> None:
        self.explained: list[tuple[Any, dict[str, Any]]] = []
        self.error: Exception | None = None

    def stats(self) -> dict[str, Any]:
        return {"workers": [{"name": "w1", "state": "ready", "requests": 2}]}

    def explain(self, tokens: Any, **terms: Any) -> Any:
        self.explained.append((tokens, terms))
        if self.error:
            raise self.error
        return explanation()

    def add_worker(self, name: str, **what: Any) -> None: ...

    def update_worker(self, name: str, **what: Any) -> None: ...

    def set_ready(self, name: str, ready: bool) -> None: ...

    def drain_worker(self, name: str) -> None: ...

    def resume_worker(self, name: str) -> None: ...

    def worker_activity(self, name: str) -> tuple[int, int, float]:
        return 0, 0, 0.0

    def remove_worker(self, name: str) -> None: ...


class FakePrompter:
    """One that is told what to trust, and forgets it."""

    def set_trust(self, model: str, text: str, chat: str) -> None: ...

    def forget(self, model: str) -> None: ...


def explanation() -> Any:
    prices = {"wait": 0.5, "transfer": 0.0, "prefill": float("inf"), "delay": 0.0, "decode": 0.1}
    cost = SimpleNamespace(**prices, total=float("inf"))
    candidate = SimpleNamespace(
        worker="w1",
        state="down",
        refusal="down",
        overlap_tokens=16,
        confirmed_tokens=0,
        lower_tokens=0,
        requests=2,
        context_tokens=64,
        full=False,
        cost=cost,
    )
    return SimpleNamespace(
        decision=None,
        error=NoEligibleWorker("no worker"),
        rung="text",
        inexact="template_differs",
        inexact_because="a worker makes others",
        candidates=[candidate],
    )


@pytest.fixture
def router() -> FakeRouter:
    return FakeRouter()


@pytest.fixture
def bodies() -> list[tuple[str, bytes]]:
    return []


@pytest.fixture
async def fleet(router: FakeRouter) -> Any:
    fleet = Fleet(router, SimpleNamespace(), FleetOptions(), block_size=16)
    for name, models in (("w1", ()), ("w2", ("mine",)), ("w3", ())):
        fleet.add(WorkerOptions(url=f"http://{name}:1", name=name, models=models))
    await fleet.close()
    return fleet


@pytest.fixture
def trust() -> Trust:
    return Trust(FakePrompter())


@pytest.fixture
def control(router: FakeRouter, fleet: Fleet, trust: Trust, bodies: list[tuple[str, bytes]]) -> Control:
    metrics = Metrics(lambda: Snapshot({}, {}, "1", False, False))

    def explain_body(endpoint: str, body: bytes) -> Any:
        bodies.append((endpoint, body))
        return explanation()

    def confirmed(worker: str) -> dict[str, Any] | None:
        return {"next": 3, "live": True, "blocks": 2, "names": [2**63, 10]} if worker == "w 1" else None

    explain = Explain(router.explain, explain_body)
    return Control(router, fleet, trust, metrics, explain, confirmed=confirmed)


def up(fleet: Fleet, number: int, *models: Model) -> None:
    state = fleet.states()[number]
    state.health.status, state.facts = Status.UP, Facts(models)


def test_the_process_is_healthy_and_ready_once_a_worker_is_up(control: Control, fleet: Fleet) -> None:
    assert control("GET", "/healthz", "", b"")[0] == 200
    assert control("GET", "/readyz", "", b"") == (503, "text/plain; charset=utf-8", b"no worker is up\n")
    up(fleet, 0)
    assert control("GET", "/readyz", "", b"")[0] == 200
    control.draining = True
    assert control("GET", "/readyz", "", b"")[0] == 503


def test_models_are_the_union_of_the_workers_that_are_up(control: Control, fleet: Fleet) -> None:
    up(fleet, 0, Model("llama", 5, "meta", 100), Model("adapter"))
    up(fleet, 1, Model("hidden", max_model_len=9))
    fleet.states()[2].facts = Facts((Model("down"),))
    status, kind, body, *_ = control("GET", "/v1/models", "", b"")
    assert (status, kind) == (200, "application/json")
    listed = json.loads(body)
    assert listed["object"] == "list"
    assert [(entry["id"], entry["max_model_len"]) for entry in listed["data"]] == [
        ("adapter", None),
        ("llama", 100),
        ("mine", None),
    ]
    assert listed["data"][1] == {
        "id": "llama",
        "object": "model",
        "created": 5,
        "owned_by": "meta",
        "max_model_len": 100,
    }


def test_workers_are_listed_with_health_and_load(control: Control, fleet: Fleet) -> None:
    up(fleet, 0, Model("llama"))
    workers = json.loads(control("GET", "/warmroute/v1/workers", "", b"")[2])["workers"]
    assert [worker["name"] for worker in workers] == ["w1", "w2", "w3"]
    assert (workers[0]["state"], workers[0]["load"]) == ("ready", {"requests": 2})
    assert workers[1]["health"] == {
        "status": "unknown",
        "failures": 0,
        "error": "",
        "slow": False,
        "frozen": False,
    }


def test_confirmed_blocks_are_listed_by_the_engine_s_names(control: Control) -> None:
    status, _, body, *_ = control("GET", "/warmroute/v1/blocks", "worker=w%201", b"")
    names = ["000000000000000a", "8000000000000000"]
    assert (status, json.loads(body)) == (
        200,
        {"worker": "w 1", "next": 3, "live": True, "blocks": 2, "names": names},
    )


@pytest.mark.parametrize("query", ["", "worker=", "worker=w2", "worker"])
def test_blocks_of_no_worker_are_the_caller_s_fault(control: Control, query: str) -> None:
    assert control("GET", "/warmroute/v1/blocks", query, b"")[0] == 400


def test_workers_tell_how_their_tokens_compare(control: Control, trust: Trust) -> None:
    chat = Canary("chat", "/v1/chat/completions", {})
    difference = Difference(chat, 3, 7, None)
    trust.learn("w1", {"llama": Verdict(State.VERIFIED, State.REFUSED, difference)})
    workers = json.loads(control("GET", "/warmroute/v1/workers", "", b"")[2])["workers"]
    assert workers[0]["tokens"]["llama"] == {
        "text": "verified",
        "chat": "refused",
        "difference": {"canary": "chat", "position": 3, "ours": 7, "theirs": None},
        "error": None,
        "unmade_chats": None,
    }
    assert workers[1]["tokens"] == {}


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("GET", "/nothing", 404, None),
        ("POST", "/metrics", 405, "GET, HEAD"),
        ("GET", "/warmroute/v1/explain", 405, "POST"),
        ("POST", "/warmroute/v1/workers", 405, "GET, HEAD"),
        ("DELETE", "/warmroute/v1/workers/w1", 404, None),
        ("HEAD", "/healthz", 200, None),
    ],
)
def test_paths_and_methods_that_do_not_exist(
    control: Control, method: str, path: str, status: int, allowed: str | None
) -> None:
    answer, _, body, *rest = control(method, path, "", b"")
    assert answer == status
    assert rest == ([{"allow": allowed}] if allowed else [])
    if status >= 400:
        assert json.loads(body)["error"]["type"] == "invalid_request_error"


def test_a_fault_of_ours_is_a_reply_too(control: Control) -> None:
    # The fake snapshot lacks every counter.
    status, _, body, *_ = control("GET", "/metrics", "", b"")
    assert status == 500
    assert json.loads(body)["error"]["message"] == "internal error"


def test_token_ids_are_explained(control: Control, router: FakeRouter) -> None:
    body = json.dumps({"tokens": [1, 2, 3], "model": "llama", "max_tokens": 5}).encode()
    status, _, reply, *_ = control("POST", "/warmroute/v1/explain", "", body)
    assert status == 200
    assert router.explained == [([1, 2, 3], {"model": "llama", "max_tokens": 5})]
    document = json.loads(reply)
    assert document["decision"] is None
    assert document["error"]["code"] == "no_eligible_worker"
    assert document["prompt"] == {
        "rung": "text",
        "inexact": "template_differs",
        "inexact_because": "a worker makes others",
    }
    assert document["candidates"][0]["cost_seconds"] == {
        "wait": 0.5,
        "transfer": 0.0,
        "prefill": None,
        "delay": 0.0,
        "decode": 0.1,
        "total": None,
    }


@pytest.mark.parametrize(
    ("query", "body", "endpoint"),
    [
        ("", {"messages": []}, "/v1/chat/completions"),
        ("", {"prompt": "x"}, "/v1/completions"),
        ("", {"input": "x"}, "/v1/responses"),
        ("endpoint=%2Fv1%2Fmessages", {"messages": []}, "/v1/messages"),
        ("endpoint=/v1/messages", {"messages": []}, "/v1/messages"),
    ],
)
def test_a_body_is_explained_for_its_endpoint(
    control: Control, bodies: list[tuple[str, bytes]], query: str, body: dict[str, Any], endpoint: str
) -> None:
    raw = json.dumps(body).encode()
    assert control("POST", "/warmroute/v1/explain", query, raw)[0] == 200
    assert bodies == [(endpoint, raw)]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"{}", b'{"tokens": 3}', b'{"tokens": [1], "colour": 2}', b"\xff"]
)
def test_a_body_that_cannot_be_explained_is_the_caller_s_fault(control: Control, body: bytes) -> None:
    status, _, reply, *_ = control("POST", "/warmroute/v1/explain", "", body)
    assert status == 400
    assert json.loads(reply)["error"]["code"] == "invalid_request"


@pytest.mark.parametrize(("error", "status"), [(UnknownModel("no"), 404), (TypeError("no"), 400)])
def test_errors_of_the_router_keep_their_class(
    control: Control, router: FakeRouter, error: Exception, status: int
) -> None:
    router.error = error
    assert control("POST", "/warmroute/v1/explain", "", b'{"tokens": [1]}')[0] == status
