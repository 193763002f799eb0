"""The fleet of an embedded router: what is added is ready, since nobody looks at its health."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from warmroute.config import WorkerOptions
from warmroute.errors import UnknownWorker, WorkerConflict
from warmroute.native import Router, WorkerView

# How often the fleet's revision is looked at while somebody watches.
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Member:
    """A worker at one moment; what is `None` or empty is not known."""

    name: str
    url: str
    state: str
    models: tuple[str, ...]
    adapters: tuple[str, ...]
    kv_blocks: int | None
    block_size: int | None
    max_model_len: int | None
    max_requests: int | None
    dp_rank: int | None
    load: Mapping[str, Any] = field(default_factory=dict)


class Members:
    """Lists, adds, drains, removes and watches the workers of a router that its own program fills."""

    def __init__(self, router: Router) -> None:
        """Take the router."""
        self._router = router

    def workers(self) -> list[Member]:
        """Every worker, by name."""
        loads = {load["name"]: load for load in self._router.stats()["workers"]}
        views = sorted(self._router.workers(), key=lambda view: view.name)
        return [_member(view, loads.get(view.name, {})) for view in views]

    def add(self, worker: WorkerOptions) -> Member:
        """Take a worker in; raise `WorkerConflict` where its name is taken."""
        name = worker.name or worker.url
        if any(view.name == name for view in self._router.workers()):
            raise WorkerConflict(f"the name {name!r} is taken: give this worker another one")
        self._router.add_worker(
            name,
            url=worker.url,
            kv_blocks=worker.kv_blocks,
            block_size=worker.block_size,
            models=worker.models,
            max_model_len=worker.max_model_len,
            max_requests=worker.max_requests,
            dp_rank=worker.dp_rank,
        )
        return self._member(name)

    def drain(self, name: str) -> Member:
        """Give a worker nothing more."""
        self._router.drain_worker(name)
        return self._member(name)

    def remove(self, name: str) -> None:
        """Forget a worker."""
        self._router.remove_worker(name)

    async def watch(self) -> AsyncIterator[dict[str, Member | None]]:
        """Every worker first, then what changed, by name; `None` for one that has left."""
        revision = self._router.fleet_revision
        known = {member.name for member in self.workers()}
        yield {member.name: member for member in self.workers()}
        while True:
            await asyncio.sleep(_LOOK_S)
            if (seen := self._router.fleet_revision) == revision:
                continue
            revision = seen
            current = {member.name: member for member in self.workers()}
            yield {name: current.get(name) for name in known | current.keys()}
            known = set(current)

    def _member(self, name: str) -> Member:
        member = next((each for each in self.workers() if each.name == name), None)
        if member is None:
            raise UnknownWorker(f"no worker is named {name!r}")
        return member


def _member(view: WorkerView, load: Mapping[str, Any]) -> Member:
    return Member(
        name=view.name,
        url=view.url,
        state=view.state,
        models=tuple(view.models),
        adapters=tuple(view.adapters),
        kv_blocks=view.kv_blocks,
        block_size=view.block_size,
        max_model_len=view.max_model_len,
        max_requests=view.max_requests,
        dp_rank=view.dp_rank,
        load=load,
    )
