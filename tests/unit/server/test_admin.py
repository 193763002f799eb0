"""The admin API over a real fleet that looks at nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from warmroute.config import FleetOptions, WorkerOptions
from warmroute.errors import WorkerUnreachable
from warmroute.fleet import Fleet, Operator, Reconciler, Trust
from warmroute.fleet.discovery import Listing
from warmroute.metrics import Metrics, Snapshot
from warmroute.native import Router
from warmroute.server.admin import Admin, Guard
from warmroute.server.control import Control

KEY = "a-key-of-sixteen-characters"
AS_ADMIN = {"authorization": f"Bearer {KEY}"}
WORKERS = "/warmroute/v1/workers"

Ask = Callable[..., Any]


class Unreachable:
    async def health(self, worker: WorkerOptions) -> None:
        raise WorkerUnreachable("refused")


@pytest.fixture
def router() -> Router:
    return Router()


@pytest.fixture
async def fleet(router: Router) -> AsyncIterator[Fleet]:
    fleet = Fleet(router, SimpleNamespace(health=Unreachable().health), FleetOptions(), block_size=16)
    yield fleet
    await fleet.close()


@pytest.fixture
async def reconciler(fleet: Fleet) -> AsyncIterator[Reconciler]:
    reconciler = Reconciler(fleet, 60)
    yield reconciler
    await reconciler.close()


@pytest.fixture
async def operator(router: Router, fleet: Fleet, reconciler: Reconciler) -> Operator:
    return Operator(fleet, reconciler, router.stats)


@pytest.fixture
async def ask(router: Router, operator: Operator, fleet: Fleet) -> Ask:
    prompter = SimpleNamespace(set_trust=lambda *_: None, forget=lambda *_: None)
    admin = Admin(operator, asyncio.get_running_loop(), Guard(KEY, "0.0.0.0"))
    metrics = Metrics(lambda: Snapshot({}, {}, "1", False, False))
    control = Control(router, fleet, Trust(prompter), metrics, lambda *_: (200, "", b""), admin=admin)

    async def asked(method: str, path: str, body: Any = None, headers: Any = AS_ADMIN) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        status, _, reply, *_ = await asyncio.to_thread(control, method, path, "", data, headers)
        return status, json.loads(reply)

    return asked


async def test_a_worker_is_added_listed_drained_and_removed(ask: Ask, router: Router) -> None:
    status, reply = await ask("POST", WORKERS, {"url": "http://h:1", "name": "w1", "kv_blocks": 5})
    assert status == 201
    assert (reply["worker"]["name"], reply["worker"]["source"], reply["worker"]["state"]) == (
        "w1",
        "api",
        "down",
    )
    _, listed = await ask("GET", WORKERS, headers={})
    assert [(worker["name"], worker["source"]) for worker in listed["workers"]] == [("w1", "api")]
    status, reply = await ask("POST", f"{WORKERS}/w1/drain")
    assert (status, reply["worker"]["state"]) == (200, "draining")
    # It is idle: it leaves by itself.
    async with asyncio.timeout(10):
        while router.workers():
            await asyncio.sleep(0.01)
    await ask("POST", WORKERS, {"url": "http://h:1", "name": "w1"})
    assert await ask("DELETE", f"{WORKERS}/w1") == (200, {"removed": "w1"})
    assert router.workers() == []


async def test_a_worker_that_runs_requests_leaves_after_them(ask: Ask, router: Router, fleet: Fleet) -> None:
    await ask("POST", WORKERS, {"url": "http://h:1", "name": "w1"})
    fleet.states()[0].health.good()
    router.set_ready("w1", True)
    lease = router.route([1, 2, 3])
    await ask("POST", f"{WORKERS}/w1/drain")
    await asyncio.sleep(0.3)
    assert [worker.state for worker in router.workers()] == ["draining"]
    lease.close()
    async with asyncio.timeout(10):
        while router.workers():
            await asyncio.sleep(0.01)


async def test_a_worker_that_a_file_lists_is_drained_and_taken_back_but_not_removed(
    ask: Ask, router: Router, reconciler: Reconciler
) -> None:
    worker = WorkerOptions(url="http://h:1", name="w1")
    reconciler.offer("file", [Listing(worker)])
    status, reply = await ask("DELETE", f"{WORKERS}/w1")
    assert (status, reply["error"]["code"]) == (409, "worker_conflict")
    assert "listed by file" in reply["error"]["message"]
    await ask("POST", f"{WORKERS}/w1/drain")
    reconciler.offer("file", [Listing(worker)])
    assert [each.state for each in router.workers()] == ["draining"]
    status, reply = await ask("POST", WORKERS, {"url": "http://h:1", "name": "w1"})
    assert (status, reply["worker"]["state"], reply["worker"]["source"]) == (201, "down", "api")


async def test_a_configured_worker_can_be_removed(ask: Ask, router: Router, reconciler: Reconciler) -> None:
    reconciler.offer("config", [Listing(WorkerOptions(url="http://h:1", name="w1"))])
    assert (await ask("DELETE", f"{WORKERS}/w1"))[0] == 200
    assert router.workers() == []


async def test_a_worker_that_still_finishes_can_be_removed(ask: Ask, router: Router, fleet: Fleet) -> None:
    await ask("POST", WORKERS, {"url": "http://h:1", "name": "w1"})
    fleet.states()[0].health.good()
    router.set_ready("w1", True)
    lease = router.route([1, 2, 3])
    await ask("POST", f"{WORKERS}/w1/drain")
    # Its URL serves several ranks, as was found out later.
    fleet.states()[0].options = WorkerOptions(url="http://h:1", name="w1", dp_rank=0)
    assert (await ask("DELETE", f"{WORKERS}/w1"))[0] == 200
    assert router.workers() == []
    lease.close()


async def test_names_are_taken_from_the_path_as_they_are_encoded(ask: Ask) -> None:
    await ask("POST", WORKERS, {"url": "http://[::1]:8000"})
    assert (await ask("DELETE", f"{WORKERS}/%5B%3A%3A1%5D%3A8000"))[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", WORKERS, b"{", 400, "JSON"),
        ("POST", WORKERS, b"[]", 400, "object"),
        ("POST", WORKERS, b"[" * 100_000, 400, "JSON"),
        ("POST", WORKERS, {"url": "https://h"}, 400, "http://HOST"),
        ("POST", WORKERS, {"url": "http://u:pw@h"}, 400, "hidden"),
        ("POST", WORKERS, {"url": "http://\ud800", "name": "w2"}, 400, "http://HOST"),
        ("POST", WORKERS, {"url": "http://h:2", "models": ["\ud800"]}, 400, "models"),
        ("POST", WORKERS, {"url": "http://h:1", "colour": 1}, 400, "colour"),
        ("POST", WORKERS, {"url": "http://h:1", "kv_blocks": -1}, 400, "kv_blocks"),
        ("POST", WORKERS, {"url": "http://h:9", "name": "w1"}, 409, "another name"),
        ("DELETE", f"{WORKERS}/none", None, 404, "none"),
        ("POST", f"{WORKERS}/none/drain", None, 404, "none"),
        ("PUT", f"{WORKERS}/w1", None, 405, "takes DELETE"),
        ("GET", f"{WORKERS}/w1", None, 405, "takes DELETE"),
        ("POST", f"{WORKERS}/w1", None, 405, "takes DELETE"),
        ("DELETE", WORKERS, None, 405, "takes GET, HEAD, POST"),
        ("GET", f"{WORKERS}/w1/drain", None, 405, "takes POST"),
        ("POST", f"{WORKERS}/w1/dance", None, 404, "there is no"),
        ("DELETE", f"{WORKERS}/", None, 404, "there is no"),
        ("DELETE", f"{WORKERS}/w1/", None, 404, "there is no"),
    ],
)
async def test_what_cannot_be_done_is_said(
    ask: Ask, router: Router, method: str, path: str, body: Any, status: int, said: str
) -> None:
    await ask("POST", WORKERS, {"url": "http://h:1", "name": "w1"})
    answer, reply = await ask(method, path, body)
    assert answer == status
    assert said in reply["error"]["message"]
    assert "pw" not in reply["error"]["message"]
    assert [worker.url for worker in router.workers()] == ["http://h:1"]


@pytest.mark.parametrize(
    ("key", "host", "headers", "status"),
    [
        (KEY, "0.0.0.0", AS_ADMIN, 200),
        (KEY, "127.0.0.1", {"authorization": f"bearer  {KEY} "}, 200),
        (KEY, "127.0.0.1", {}, 401),
        (KEY, "127.0.0.1", {"authorization": f"Basic {KEY}"}, 401),
        (KEY, "127.0.0.1", {"authorization": "Bearer k\u00e9y"}, 401),
        (None, "127.0.0.1", {}, 200),
        (None, "::1", {}, 200),
        (None, "localhost", {}, 200),
        (None, "127.0.0.1", {"origin": "http://evil.example"}, 403),
        (None, "0.0.0.0", {}, 403),
        (None, "10.1.2.3", AS_ADMIN, 403),
    ],
)
def test_who_may_change_the_fleet(key: str | None, host: str, headers: dict[str, str], status: int) -> None:
    removed: list[str] = []
    operator = SimpleNamespace(remove=removed.append, add=None, drain=None)
    loop = asyncio.new_event_loop()
    admin = Admin(operator, loop, Guard(key, host))
    admin._on_loop = lambda change: change()  # type: ignore[method-assign]
    try:
        got = admin("DELETE", f"{WORKERS}/w1", b"", headers)[0]
    except Exception as error:
        got = error.http_status  # type: ignore[attr-defined]
    loop.close()
    assert (got, removed) == (status, ["w1"] if status == 200 else [])


async def test_changes_are_watched(ask: Ask, operator: Operator) -> None:
    await ask("POST", WORKERS, {"url": "http://h:1", "name": "w1"})
    changes = operator.watch()
    assert list(await anext(changes)) == ["w1"]
    await ask("POST", WORKERS, {"url": "http://h:2", "name": "w2"})
    while (seen := (await anext(changes)).get("w2")) is None:
        pass
    assert (seen.url, seen.source, seen.models) == ("http://h:2", "api", ())
    await ask("DELETE", f"{WORKERS}/w1")
    while (await anext(changes)).get("w1", seen) is not None:
        pass
    await changes.aclose()  # type: ignore[attr-defined]
    assert operator._watchers == []
