"""Reads workers' own metrics: a correction to the router's counters, and never their replacement.

What other routers sent counts as load, a KV cache that is full makes a last resort, and steps are a sign of
life. Counts of hits correct what is predicted of a worker where nothing else does. Metrics that are stale,
missing or odd change nothing.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Protocol

from warmroute.config import FleetOptions, WorkerOptions
from warmroute.errors import UnknownWorker, WorkerError, WorkerReply
from warmroute.fleet.gauges import Gauges, read_gauges
from warmroute.fleet.health import Status
from warmroute.fleet.state import WorkerState
from warmroute.logs import get
from warmroute.tasks import Tasks, stop

# Intervals for which an observation counts.
VALID_INTERVALS = 3
# Intervals after which a worker without such metrics is asked again.
ABSENT_INTERVALS = 12

log = get("fleet")


class RouterPort(Protocol):
    """What takes the observations."""

    def worker_activity(self, name: str) -> tuple[int, int, float]:
        """Active requests, signs of life so far, and seconds until dispatched prefill is done."""

    def observe_worker(self, name: str, *, others: int, kv_usage: float, valid_s: float) -> None:
        """Take what counts beside the bookings, for a while."""

    def wants_hits(self, name: str) -> bool:
        """Whether the worker's counts of hits should be told."""

    def observe_hits(self, name: str, queries: int, hits: int) -> None:
        """Take the tokens that were looked up in the worker's prefix cache, and found there."""


class ClientPort(Protocol):
    """Who reads a worker's metrics."""

    async def metrics(self, worker: WorkerOptions) -> bytes:
        """The page, or `WorkerError`."""


class Scraper:
    """Scrapes each worker that is up, in a task of its own."""

    def __init__(
        self,
        router: RouterPort,
        client: ClientPort,
        options: FleetOptions,
        *,
        generator: random.Random | None = None,
        tasks: Tasks | None = None,
    ) -> None:
        """Take what takes the observations, who reads the pages, the options, and what runs the tasks."""
        self._runner = tasks or Tasks()
        self._router = router
        self._client = client
        self._interval_s = options.scrape_interval_ms / 1000
        self._jitter = options.probe_jitter
        self._turns = asyncio.Semaphore(options.scrape_concurrency)
        self._random = generator or random.Random()  # noqa: S311 - moves scrapes apart, decides nothing
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stats: dict[str, dict[str, Any]] = {}

    def add(self, state: WorkerState, saw: Callable[[Gauges], None]) -> None:
        """Start to scrape a worker; `saw` is told of each page."""
        self._stats[state.name] = {"scrapes": 0, "scrape_failures": 0, "scraped": False}
        task = self._runner.start("scrape", lambda: self._watch(state, saw), worker=state.name)
        self._tasks[state.name] = task

    def remove(self, name: str) -> None:
        """Stop it, where it is scraped."""
        if (task := self._tasks.pop(name, None)) is not None:
            task.cancel()
        self._stats.pop(name, None)

    def stats(self) -> dict[str, dict[str, Any]]:
        """By worker: `scrapes`, `scrape_failures`, and whether the last one was good (`scraped`)."""
        return dict(self._stats)

    async def close(self) -> None:
        """Stop all."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        await stop(tasks)

    async def _watch(self, state: WorkerState, saw: Callable[[Gauges], None]) -> None:
        # Workers that join at the same time are not scraped at the same time.
        await asyncio.sleep(self._interval_s * self._random.random())
        before = 0
        while True:
            intervals = 1
            if state.health.status is Status.UP or state.frozen_at is not None:
                try:
                    async with self._turns:
                        before = await self._scrape(state, before, saw)
                except UnknownWorker:
                    return
                except WorkerError as error:
                    intervals = self._failed(state.name, error)
            spread = self._random.uniform(1 - self._jitter, 1 + self._jitter)
            await asyncio.sleep(self._interval_s * intervals * spread)

    async def _scrape(self, state: WorkerState, before: int, saw: Callable[[Gauges], None]) -> int:
        """One page; gives our own requests at its end. `before` are those at the end of the last one."""
        name, ours = state.name, max(before, self._router.worker_activity(state.name)[0])
        gauges = read_gauges(await self._client.metrics(state.options), state.options.dp_rank)
        if gauges is None:
            raise WorkerReply("/metrics does not tell how many requests there are", 404)
        last = self._router.worker_activity(name)[0]
        # Its counts lag behind ours by seconds: whatever we had since the last page may be ours still.
        others = max(0, gauges.requests - max(ours, last))
        valid_s = self._interval_s * VALID_INTERVALS
        self._router.observe_worker(name, others=others, kv_usage=gauges.kv_usage, valid_s=valid_s)
        if gauges.queries is not None and gauges.hits is not None and self._router.wants_hits(name):
            self._router.observe_hits(name, gauges.queries, gauges.hits)
        saw(gauges)
        stats = self._stats[name]
        stats["scrapes"] += 1
        stats["scraped"] = True
        return last

    def _failed(self, name: str, error: WorkerError) -> int:
        """Take note; gives after how many intervals it is tried again."""
        stats = self._stats[name]
        stats["scrape_failures"] += 1
        stats["scraped"] = False
        if isinstance(error, WorkerReply) and error.status == 404:
            log.once(name, "no metrics: the load of other routers is not seen", worker=name)
            return ABSENT_INTERVALS
        return 1
