"""The fleet as whoever runs it sees and changes it: behind the admin API, the command line and gRPC.

Everything here is called on the fleet's event loop.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from warmroute.config import WorkerOptions
from warmroute.errors import UnknownWorker, WorkerConflict
from warmroute.fleet.discovery import Reconciler
from warmroute.fleet.discovery.listing import API, CONFIG, Listing
from warmroute.fleet.fleet import Fleet
from warmroute.fleet.health import Status
from warmroute.fleet.state import WorkerState

# Workers that can be added: each has metrics of its own.
WORKERS_LIMIT = 16_384
# Sources that nobody but the operator changes while the router runs.
_OWN = (API, CONFIG)


@dataclass(frozen=True, slots=True)
class WorkerEntry:
    """A worker at one moment; what is `None` or empty is not known.

    `state` is `ready`, `down` or `draining`. `kv_blocks` and `block_size` are the worker's own. `load` has
    the keys of a worker in `Router.stats()`, without `name` and `state`.
    """

    name: str
    url: str
    state: str
    source: str
    health: Status
    failures: int
    error: str
    slow: bool
    frozen: bool
    version: str
    models: tuple[str, ...]
    adapters: tuple[str, ...]
    kv_blocks: int | None
    block_size: int | None
    max_model_len: int | None
    max_requests: int | None
    dp_rank: int | None
    load: Mapping[str, Any]


Changes = dict[str, WorkerEntry | None]


class Operator:
    """Lists, adds, drains, removes and watches workers."""

    def __init__(self, fleet: Fleet, reconciler: Reconciler, stats: Callable[[], Mapping[str, Any]]) -> None:
        """Take the fleet, what changes it, and what gives `Router.stats()`."""
        self._fleet = fleet
        self._reconciler = reconciler
        self._stats = stats
        self._watchers: list[_Watcher] = []
        fleet.listen(self._changed)

    def workers(self) -> list[WorkerEntry]:
        """Every worker, by name."""
        loads: dict[str, Any] = {load["name"]: load for load in self._stats()["workers"]}
        states = sorted(self._fleet.states(), key=lambda state: state.name)
        return [entry_of(state, loads.get(state.name, {})) for state in states]

    def worker(self, name: str) -> WorkerEntry:
        """The worker of this name, or `UnknownWorker`."""
        state = self._known(name)
        load: Any = next((load for load in self._stats()["workers"] if load["name"] == name), {})
        return entry_of(state, load)

    def add(self, worker: WorkerOptions) -> WorkerEntry:
        """Take a worker in, from now on and until it is removed or the router ends; its name must be set.

        What other sources say of the same URL gives way, its name too. One that was added before is replaced,
        and one that drains by `drain` takes requests again.

        Raises:
            WorkerConflict: where a worker with another URL has the name.
        """
        listing = Listing(worker)
        self._check_name(listing)
        others = [each for each in self._reconciler.listed(API) if each.key != listing.key]
        self._reconciler.release(listing.key)
        self._reconciler.offer(API, [*others, listing])
        return self.worker(listing.name)

    def _check_name(self, listing: Listing) -> None:
        state = self._fleet.state(listing.name)
        present = self._reconciler.wanted(listing.name)
        is_same = present is not None and present.listing.key == listing.key
        if state is not None and not is_same and (present is not None or state.base is not None):
            raise WorkerConflict(
                f"the name {listing.name!r} is taken by the worker at {state.options.url}; "
                "give this one another name"
            )
        if state is None and len(self._fleet.states()) >= WORKERS_LIMIT:
            raise WorkerConflict(f"the fleet has {WORKERS_LIMIT} workers, which is as many as it may have")

    def drain(self, name: str) -> WorkerEntry:
        """Let a worker finish what it has, and give it nothing more.

        One that is known from here alone (added, or configured at the start) leaves when it has finished. One
        that another source lists stays, without requests, until that source drops it or `add` takes it back.

        Raises:
            UnknownWorker: for a name that the fleet does not have.
        """
        state = self._known(name)
        entry = self.worker(name)
        present = self._reconciler.wanted(state.base or name)
        if present is not None:
            key = present.listing.key
            if set(self._reconciler.sources_of(key)) <= set(_OWN):
                self._unlist(key)
            else:
                self._reconciler.hold(key)
            entry = self.worker(name)
        return entry

    def remove(self, name: str) -> None:
        """Forget a worker and what it holds at once; requests that it has go on.

        Raises:
            UnknownWorker: for a name that the fleet does not have.
            WorkerConflict: where a source lists it that would bring it back: a file, DNS or Kubernetes.
        """
        state = self._known(name)
        base = state.base or name
        known = self._reconciler.wanted(base) or self._reconciler.leaving(base)
        if known is None:
            raise UnknownWorker(f"no worker is named {name!r}")
        key = known.listing.key
        others = [source for source in self._reconciler.sources_of(key) if source not in _OWN]
        if others:
            raise WorkerConflict(
                f"the worker {name!r} is listed by {' and '.join(others)}: remove it there, or drain it here"
            )
        self._unlist(key)
        self._reconciler.forget(key)

    async def watch(self) -> AsyncIterator[Changes]:
        """Every worker first, then what changed, by name; `None` for one that has left.

        What changes while nobody reads comes as one. Load alone is no change.
        """
        watcher = _Watcher()
        self._watchers.append(watcher)
        try:
            yield {entry.name: entry for entry in self.workers()}
            while True:
                names = await watcher.take()
                entries = {entry.name: entry for entry in self.workers()}
                yield {name: entries.get(name) for name in names}
        finally:
            self._watchers.remove(watcher)

    def _known(self, name: str) -> WorkerState:
        state = self._fleet.state(name)
        if state is None:
            raise UnknownWorker(f"no worker is named {name!r}")
        return state

    def _unlist(self, key: tuple[str, int | None]) -> None:
        for source in _OWN:
            listed = self._reconciler.listed(source)
            if any(each.key == key for each in listed):
                self._reconciler.offer(source, [each for each in listed if each.key != key])

    def _changed(self, name: str) -> None:
        for watcher in self._watchers:
            watcher.put(name)


class _Watcher:
    """The names of workers that changed since somebody last looked: never more than there are workers."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._some = asyncio.Event()

    def put(self, name: str) -> None:
        self._names[name] = None
        self._some.set()

    async def take(self) -> list[str]:
        await self._some.wait()
        names = list(self._names)
        self._names.clear()
        self._some.clear()
        return names


def entry_of(state: WorkerState, load: Mapping[str, Any]) -> WorkerEntry:
    """A worker as the fleet and the router know it; `load` is its part of `Router.stats()`."""
    options, facts = state.options, state.facts
    rest = {name: value for name, value in load.items() if name not in ("name", "state")}
    return WorkerEntry(
        name=state.name,
        url=options.url,
        state=load.get("state", "down"),
        source=state.source,
        health=state.health.status,
        failures=state.health.failures,
        error=state.error,
        slow=state.slow,
        frozen=state.frozen_at is not None,
        version=facts.version,
        models=options.models or tuple(model.id for model in facts.models),
        adapters=tuple(model.id for model in facts.models if model.parent),
        kv_blocks=options.kv_blocks or facts.kv_blocks,
        block_size=options.block_size or facts.block_size,
        max_model_len=options.max_model_len or facts.max_model_len,
        max_requests=options.max_requests,
        dp_rank=options.dp_rank,
        load=rest,
    )
