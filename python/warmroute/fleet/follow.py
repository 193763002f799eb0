"""Follows the KV events of the fleet's workers, where they publish any."""

from collections.abc import Callable
from typing import Any, Protocol

from warmroute.config import WorkerOptions
from warmroute.errors import UnknownWorker, WorkerError
from warmroute.fleet.events import MirrorPort, Source
from warmroute.fleet.sources import configured
from warmroute.logs import get

log = get("events")


class EventsPort(Protocol):
    """What follows the sources; see `warmroute.fleet.events.Events`."""

    def add(self, name: str, source: Source, mirror: MirrorPort) -> None:
        """Follow a source."""

    def remove(self, name: str) -> None:
        """Stop to follow it."""

    def restarted(self, name: str) -> None:
        """Its worker is another process."""

    def catch_up(self, name: str) -> None:
        """Ask for everything."""

    def catching_up(self) -> list[str]:
        """The workers of which something is asked for."""

    def stats(self) -> dict[str, dict[str, Any]]:
        """Each worker's counters."""

    def confirmed(self, name: str) -> dict[str, Any] | None:
        """What is confirmed of one worker."""


class ClientPort(Protocol):
    """Who asks a worker where its events are."""

    async def event_sources(self, worker: WorkerOptions) -> dict[int, Source]:
        """Its sources by data-parallel rank; none where it says none. Raises `WorkerError`."""


class Follower:
    """Finds each worker's source, and has it followed for as long as the worker is there."""

    def __init__(self, events: EventsPort, client: ClientPort, mirror: Callable[[str], MirrorPort]) -> None:
        """Take what follows, who asks, and what makes the mirror of a worker."""
        self._events = events
        self._client = client
        self._mirror = mirror
        self._sources: dict[str, Source] = {}

    async def learn(self, name: str, worker: WorkerOptions) -> list[int]:
        """Follow the worker's events, if it has any; return the data-parallel ranks that its URL serves."""
        sources = {}
        source = configured(worker)
        if source is None:
            try:
                sources = await self._client.event_sources(worker)
            except WorkerError as error:
                log.once(name, "where the KV events are cannot be read", worker=name, error=error)
            source = sources.get(worker.dp_rank or 0)
        if source is None:
            self.forget(name)
            log.once(
                name,
                "no KV events: what the worker holds is predicted (start it with --kv-events-config)",
                worker=name,
            )
        elif source != self._sources.get(name):
            self._follow(name, source)
        return sorted(sources)

    def _follow(self, name: str, source: Source) -> None:
        try:
            mirror = self._mirror(name)
        except UnknownWorker:
            return
        self._sources[name] = source
        self._events.add(name, source, mirror)
        replays = source.replay_endpoint is not None
        log.info("KV events are followed", worker=name, endpoint=source.endpoint, replays=replays)

    def came_up(self, name: str) -> None:
        """The worker is taken in, and what it holds was forgotten before."""
        if name in self._sources:
            self._events.catch_up(name)

    def restarted(self, name: str) -> None:
        """Another process has taken the worker's place."""
        if name in self._sources:
            self._events.restarted(name)

    def forget(self, name: str) -> None:
        """The worker has left, or publishes nothing any more."""
        if self._sources.pop(name, None) is not None:
            self._events.remove(name)

    def catching_up(self) -> list[str]:
        """The workers whose events are still asked for."""
        return self._events.catching_up()

    def stats(self) -> dict[str, dict[str, Any]]:
        """Each followed worker's counters."""
        return self._events.stats()

    def confirmed(self, name: str) -> dict[str, Any] | None:
        """What is confirmed of a worker, in its engine's own names; `None` where no events are followed."""
        return self._events.confirmed(name)
