"""Reads the workers' own counters of their prefix caches, where nothing else says what they had."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from warmroute.config import WorkerOptions
from warmroute.errors import UnknownWorker, WorkerError
from warmroute.fleet.health import Status
from warmroute.fleet.state import WorkerState
from warmroute.logs import get

INTERVAL_S = 5.0

log = get("fleet")


class RouterPort(Protocol):
    """Who compares the counters with what was expected."""

    def wants_hits(self, name: str) -> bool:
        """Whether the worker's counters should be read."""

    def observe_hits(self, name: str, queries: int, hits: int) -> None:
        """Take them."""


class ClientPort(Protocol):
    """Who reads them."""

    async def hits(self, worker: WorkerOptions) -> tuple[int, int] | None:
        """Tokens looked up and found; none where the worker does not count them. Raises `WorkerError`."""


class Hits:
    """Looks at the workers that the router wants to know more of, one after the other."""

    def __init__(
        self, router: RouterPort, client: ClientPort, workers: Callable[[], Sequence[WorkerState]]
    ) -> None:
        """Take who compares, who reads, and what gives the workers."""
        self._router = router
        self._client = client
        self._workers = workers

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.look()

    async def look(self) -> None:
        """Look once."""
        for state in list(self._workers()):
            if state.health.status is not Status.UP:
                continue
            try:
                if self._router.wants_hits(state.name):
                    counts = await self._client.hits(state.options)
                    if counts is not None:
                        self._router.observe_hits(state.name, *counts)
            except UnknownWorker:
                # It has left meanwhile.
                continue
            except WorkerError as error:
                log.once(state.name, "metrics cannot be read", worker=state.name, error=error)
