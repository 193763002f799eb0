"""What befalls a worker, whoever knows of it: each row is played for each source of workers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import QUICK
from tests.support.bodies import chat
from tests.support.discovery import WAYS, ByApi, Way
from tests.support.fake_worker import FakeWorker, gated_stream
from tests.support.http import Client, request
from tests.support.process import Router
from tests.support.waiting import until

CHAT = "/v1/chat/completions"
TIMES = ("--probe-timeout-ms", "200", "--probe-failures", "2", "--scrape-interval-ms", "50")


@dataclass
class Scene:
    """A router that one source tells of workers."""

    way: Way
    router: Router
    first: FakeWorker
    second: FakeWorker

    async def lists(self, **workers: FakeWorker) -> None:
        await self.way.lists(self.router, workers)

    async def told(self, name: str, worker: FakeWorker) -> Mapping[str, Any] | None:
        """What the router tells of a worker."""
        wanted = self.way.named(name, worker)
        return next((each for each in await self.router.workers() if each["name"] == wanted), None)

    async def becomes(
        self, name: str, worker: FakeWorker, what: str, holds: Callable[[Mapping[str, Any] | None], bool]
    ) -> None:
        """Waits until what is told of a worker holds."""

        async def asked() -> bool:
            return holds(await self.told(name, worker))

        try:
            await until(asked, f"{name} {what}")
        except AssertionError as error:
            raise AssertionError(f"{error}; told: {await self.told(name, worker)}") from None

    async def is_ready(self, name: str, worker: FakeWorker) -> None:
        await self.becomes(
            name, worker, "is ready", lambda told: told is not None and told["state"] == "ready"
        )

    async def is_out(self, name: str, worker: FakeWorker) -> None:
        await self.becomes(name, worker, "is down", lambda told: told is not None and told["state"] == "down")

    async def is_gone(self, name: str, worker: FakeWorker) -> None:
        await self.becomes(name, worker, "is gone", lambda told: told is None)

    async def asks(self, worker: FakeWorker) -> None:
        """A request goes to this worker, and leaves blocks there."""
        before = len(worker.exchanges)
        assert (await request(self.router.port, CHAT, chat("a question" * 100))).status == 200
        assert len(worker.exchanges) == before + 1

    @contextlib.asynccontextmanager
    async def stream(self, worker: FakeWorker) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """A stream of this worker that runs; what is given ends it, and finds nothing missing."""
        pieces: asyncio.Queue[bytes] = asyncio.Queue()
        worker.then(gated_stream(pieces))
        async with await Client.connect(self.router.port) as client:
            await client.send(CHAT, chat("a long story", stream=True))
            pieces.put_nowait(b"data: 1\n\n")
            await client.read_head()
            assert await client.read_piece() == b"data: 1\n\n"

            async def finish() -> None:
                pieces.put_nowait(b"data: 2\n\n")
                pieces.put_nowait(b"")
                assert await client.read_piece() == b"data: 2\n\n"
                assert await client.read_piece() == b""

            yield finish


@pytest.fixture(params=WAYS)
async def scene(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    """One worker is known, and ready; the other one is not known yet."""
    way = WAYS[request.param](tmp_path)
    async with way, FakeWorker() as first, FakeWorker() as second:
        await way.lists(None, {"a": first})
        for name, value in way.environment.items():
            monkeypatch.setenv(name, value)
        flags = (*QUICK, *TIMES, *way.flags, *way.key_flags)
        async with Router(tmp_path / "router.log", [], *flags, ready=False) as router:
            if isinstance(way, ByApi):
                await way.catch_up(router)
            scene = Scene(way, router, first, second)
            await scene.is_ready("a", first)
            yield scene


async def test_added(scene: Scene) -> None:
    if not scene.way.can_change:
        # What flags say is known from the start.
        await scene.asks(scene.first)
        return
    await scene.lists(a=scene.first, b=scene.second)
    await scene.is_ready("b", scene.second)
    await scene.way.drain(scene.router, "a", scene.first)
    await scene.asks(scene.second)


async def test_drained(scene: Scene) -> None:
    async with scene.stream(scene.first) as finish:
        await scene.way.drain(scene.router, "a", scene.first)
        await scene.becomes(
            "a", scene.first, "drains", lambda told: told is not None and told["state"] == "draining"
        )
        assert (await request(scene.router.port, CHAT, chat("another"))).status == 503
        told = await scene.told("a", scene.first)
        assert told is not None
        assert told["load"]["requests"] == 1
        await finish()
    if scene.way.lists_on:
        # Its source lists it on: it stays, and takes nothing.
        await scene.becomes(
            "a", scene.first, "is idle", lambda told: told is not None and not told["load"]["requests"]
        )
        assert (await request(scene.router.port, CHAT, chat("another"))).status == 503
    else:
        await scene.is_gone("a", scene.first)


async def test_removed(scene: Scene) -> None:
    async with scene.stream(scene.first) as finish:
        await scene.lists()
        if scene.way.named("a", scene.first).startswith("a.test"):
            # Nothing at all from DNS empties no fleet; another worker does.
            await scene.lists(b=scene.second)
            await scene.is_ready("b", scene.second)
        await scene.becomes(
            "a", scene.first, "takes nothing", lambda told: told is None or told["state"] == "draining"
        )
        await finish()
    await scene.is_gone("a", scene.first)


async def test_restarted_on_the_same_address(scene: Scene) -> None:
    await scene.asks(scene.first)
    await scene.asks(scene.first)
    told = await scene.told("a", scene.first)
    assert told is not None
    held = told["load"]["predicted_blocks"]
    assert held > 0
    await scene.first.stop()
    scene.first.started = 2.0
    scene.first.max_model_len = 4096
    await scene.first.start()
    await scene.becomes(
        "a",
        scene.first,
        "is known anew",
        lambda told: told is not None and told["state"] == "ready" and told["max_model_len"] == 4096,
    )
    told = await scene.told("a", scene.first)
    assert told is not None
    assert told["load"]["predicted_blocks"] == 0
    await scene.asks(scene.first)


async def test_renamed(scene: Scene) -> None:
    if not scene.way.can_change:
        # A name that is given by hand stands above what flags say.
        scene.way = ByApi(scene.way.folder)
    await scene.lists(renamed=scene.first)
    await scene.is_ready("renamed", scene.first)
    await scene.is_gone("a", scene.first)
    await scene.asks(scene.first)


async def test_answering_slowly(scene: Scene) -> None:
    async with scene.stream(scene.first) as finish:
        probes = scene.first.probes
        scene.first.answers_looks = False
        await scene.becomes(
            "a", scene.first, "is slow", lambda told: told is not None and told["health"]["slow"]
        )

        async def looked() -> bool:
            return scene.first.probes > probes + 6

        await until(looked, "six looks were not answered")
        told = await scene.told("a", scene.first)
        assert told is not None
        assert told["state"] == "ready"
        await scene.asks(scene.first)
        await finish()
    # Nothing runs, and nothing answers: that is what a dead one looks like.
    await scene.is_out("a", scene.first)
    scene.first.answers_looks = True
    await scene.is_ready("a", scene.first)


async def test_without_metrics(scene: Scene) -> None:
    scene.first.has_metrics = False
    scene.second.has_metrics = False
    if scene.way.can_change:
        await scene.lists(b=scene.second)
        await scene.is_ready("b", scene.second)
        # DNS lists the first one until it was missing several times.
        await scene.is_gone("a", scene.first)
        await scene.asks(scene.second)
        told = await scene.told("b", scene.second)
        assert told is not None
        assert told["kv_blocks"] is None
        return
    metric = b'warmroute_worker_scrape_failures_total{worker="a"}'

    async def failed() -> bool:
        page = (await scene.router.get("/metrics")).body
        return any(line.startswith(metric) and not line.endswith(b" 0.0") for line in page.splitlines())

    await until(failed, "a scrape failed")
    await scene.asks(scene.first)
    told = await scene.told("a", scene.first)
    assert told is not None
    assert told["state"] == "ready"
