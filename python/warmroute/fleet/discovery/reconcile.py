"""Makes the fleet what the sources list: workers join, change, drain and leave."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from warmroute.config import WorkerOptions
from warmroute.errors import WarmrouteError
from warmroute.fleet.discovery.listing import Key, Listing, Source
from warmroute.fleet.discovery.merge import Wanted, merge
from warmroute.logs import get
from warmroute.tasks import Tasks, stop

# How often a worker that drains is looked at: nothing announces that its last request has ended.
IDLE_CHECK_S = 0.1

log = get("discovery")


class FleetPort(Protocol):
    """The fleet that is changed."""

    def add(self, options: WorkerOptions, source: str) -> None:
        """Take a worker in."""

    def update(self, options: WorkerOptions, source: str) -> None:
        """Take other options for a worker of the same name and URL."""

    def drain(self, name: str) -> None:
        """Give it nothing more."""

    def resume(self, name: str) -> None:
        """Take it back."""

    def is_idle(self, name: str) -> bool:
        """Whether nothing of it would be waited for."""

    def remove(self, name: str) -> None:
        """Forget it."""


class Reconciler:
    """Takes what each source lists, whole, and does what is needed to make the fleet the same."""

    def __init__(self, fleet: FleetPort, drain_timeout_s: float, *, tasks: Tasks | None = None) -> None:
        """Take the fleet, how long a worker that has left its sources may finish what it has, and what runs
        the sources: where one fails by a fault of ours, what it listed stays.
        """
        self._tasks = tasks or Tasks()
        self._fleet = fleet
        self._drain_timeout_s = drain_timeout_s
        self._sets: dict[str, tuple[Listing, ...]] = {}
        self._held: set[Key] = set()
        self._present: dict[str, Wanted] = {}
        self._leaving: dict[str, tuple[Wanted, asyncio.Task[None]]] = {}
        self._running: list[asyncio.Task[None]] = []

    def run(self, source: Source) -> None:
        """Follow a source until the end."""

        async def follow() -> None:
            await source.run(lambda listings: self.offer(source.name, listings))

        self._running.append(self._tasks.start("discovery", follow, source=source.name))

    async def close(self) -> None:
        """Follow nothing any more; the fleet keeps its workers."""
        tasks = [*self._running, *(task for _, task in self._leaving.values())]
        self._running.clear()
        self._leaving.clear()
        await stop(tasks)

    def offer(self, source: str, listings: Sequence[Listing]) -> None:
        """A source lists these workers, and no others."""
        self._sets[source] = tuple(listings)
        self._reconcile()

    def listed(self, source: str) -> tuple[Listing, ...]:
        """What a source lists."""
        return self._sets.get(source, ())

    def wanted(self, name: str) -> Wanted | None:
        """What is believed of a worker that has not left its sources."""
        return self._present.get(name)

    def leaving(self, name: str) -> Wanted | None:
        """What was believed of a worker that has left its sources and has not finished yet."""
        left, _ = self._leaving.get(name, (None, None))
        return left

    def sources_of(self, key: Key) -> list[str]:
        """Who lists a worker."""
        return [
            source for source, listings in self._sets.items() if any(each.key == key for each in listings)
        ]

    def hold(self, key: Key) -> None:
        """Let a worker drain whatever its sources say, for as long as one of them lists it."""
        self._held.add(key)
        self._reconcile()

    def release(self, key: Key) -> None:
        """Hold it no longer."""
        self._held.discard(key)
        self._reconcile()

    def forget(self, key: Key) -> None:
        """Do not wait for the requests of workers at this place that no source lists any more."""
        for name in [name for name, (left, _) in self._leaving.items() if left.listing.key == key]:
            self._stop_waiting(name)
            self._fleet.remove(name)

    def _reconcile(self) -> None:
        wanted = merge(self._sets)
        self._held &= {each.listing.key for each in wanted.values()}
        keys = {each.listing.key for each in wanted.values()}
        for name, present in list(self._present.items()):
            if name not in wanted or not _is_same(present, wanted[name]):
                del self._present[name]
                # Its name or its place is needed by another one: then it cannot stay until it is idle.
                self._leave(name, present, at_once=name in wanted or present.listing.key in keys)
        for name, want in wanted.items():
            self._apply(name, want)

    def _apply(self, name: str, want: Wanted) -> None:
        present = self._present.get(name) or self._returned(name, want)
        if present is None:
            if not self._join(name, want):
                return
        elif (present.listing.worker, present.source) != (want.listing.worker, want.source):
            self._fleet.update(want.listing.worker, want.source)
        self._present[name] = want
        if want.listing.draining or want.listing.key in self._held:
            self._fleet.drain(name)
        else:
            self._fleet.resume(name)

    def _returned(self, name: str, want: Wanted) -> Wanted | None:
        """A worker that is listed again before it has left."""
        left = self.leaving(name)
        if left is None or not _is_same(left, want):
            return None
        self._stop_waiting(name)
        return left

    def _join(self, name: str, want: Wanted) -> bool:
        """Take a worker in; one that the fleet refuses must not keep the others out."""
        self.forget(want.listing.key)
        if name in self._leaving:
            self._stop_waiting(name)
            self._fleet.remove(name)
        try:
            self._fleet.add(want.listing.worker, want.source)
        except (WarmrouteError, ValueError, TypeError) as error:
            log.once(
                (name, str(error)), "a worker that is listed cannot be taken in", worker=name, error=error
            )
            return False
        log.info("worker joins", worker=name, url=want.listing.worker.url, source=want.source)
        return True

    def _leave(self, name: str, present: Wanted, *, at_once: bool) -> None:
        log.info("worker leaves", worker=name)
        if at_once:
            self._fleet.remove(name)
            return
        self._fleet.drain(name)
        task = self._tasks.start("leave", lambda: self._finish(name), worker=name)
        self._leaving[name] = (present, task)

    def _stop_waiting(self, name: str) -> None:
        _, task = self._leaving.pop(name)
        task.cancel()

    async def _finish(self, name: str) -> None:
        """Wait until a worker that leaves is idle, for a time at most, and forget it."""
        try:
            async with asyncio.timeout(self._drain_timeout_s):
                while not self._fleet.is_idle(name):  # noqa: ASYNC110 - nothing announces it
                    await asyncio.sleep(IDLE_CHECK_S)
        except TimeoutError:
            log.warning("a worker that leaves has not finished in time", worker=name)
        except WarmrouteError as error:
            log.warning("a worker that leaves cannot be asked for", worker=name, error=error)
        self._fleet.remove(name)
        del self._leaving[name]


def _is_same(present: Wanted, wanted: Wanted) -> bool:
    """Whether it is the same process at the same place."""
    one, other = present.listing, wanted.listing
    return one.key == other.key and (not one.instance or not other.instance or one.instance == other.instance)
