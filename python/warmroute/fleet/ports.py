"""What the fleet needs of others."""

from collections.abc import Callable, Sequence
from typing import Protocol

from warmroute.config import WorkerOptions
from warmroute.fleet.facts import Facts, Model
from warmroute.fleet.gauges import Gauges
from warmroute.fleet.state import WorkerState
from warmroute.fleet.verdict import Verdict


class RouterPort(Protocol):
    """What the fleet needs of a router."""

    def add_worker(
        self,
        name: str,
        *,
        url: str = "",
        kv_blocks: int | None = None,
        block_size: int | None = None,
        models: Sequence[str] | None = None,
        adapters: Sequence[str] | None = None,
        max_model_len: int | None = None,
        max_requests: int | None = None,
        dp_rank: int | None = None,
    ) -> None:
        """Make a worker known; it takes nothing until it is ready."""

    def update_worker(
        self,
        name: str,
        *,
        url: str = "",
        kv_blocks: int | None = None,
        block_size: int | None = None,
        models: Sequence[str] | None = None,
        adapters: Sequence[str] | None = None,
        max_model_len: int | None = None,
        max_requests: int | None = None,
        dp_rank: int | None = None,
    ) -> None:
        """Replace what is known of a worker."""

    def set_ready(self, name: str, ready: bool) -> None:
        """Say whether the worker may be chosen; one that may not has lost its cache."""

    def drain_worker(self, name: str) -> None:
        """Give the worker nothing more."""

    def resume_worker(self, name: str) -> None:
        """Give a worker that drains requests again."""

    def worker_activity(self, name: str) -> tuple[int, int, float]:
        """Active requests, signs of life so far, and seconds until dispatched prefill is done."""

    def remove_worker(self, name: str) -> None:
        """Forget a worker and what it holds."""


class ClientPort(Protocol):
    """How the fleet looks at a worker."""

    async def health(self, worker: WorkerOptions) -> None:
        """Raise `WorkerError` unless the worker is healthy."""

    async def facts(self, worker: WorkerOptions) -> Facts:
        """Learn what the worker serves, or raise `WorkerError`."""

    async def trial(self, worker: WorkerOptions, model: str) -> None:
        """Have one token computed, or raise `WorkerError`."""


class VerifierPort(Protocol):
    """Whoever compares a worker's tokens with ours."""

    async def verify(self, worker: WorkerOptions, models: Sequence[Model]) -> dict[str, Verdict]:
        """The verdict on each of the worker's models that has a tokenizer here."""


class ScraperPort(Protocol):
    """Whoever reads the workers' metrics; see `warmroute.fleet.scrape.Scraper`."""

    def add(self, state: WorkerState, saw: Callable[[Gauges], None]) -> None:
        """Start to scrape a worker; `saw` is told of each page."""

    def remove(self, name: str) -> None:
        """Stop it."""


class FollowerPort(Protocol):
    """Whoever follows the workers' KV events; see `warmroute.fleet.follow.Follower`."""

    async def learn(self, name: str, worker: WorkerOptions) -> list[int]:
        """Follow a worker's events, and say which data-parallel ranks its URL serves."""

    def came_up(self, name: str) -> None:
        """The worker is taken in."""

    def restarted(self, name: str) -> None:
        """Another process has taken the worker's place."""

    def forget(self, name: str) -> None:
        """The worker has left."""
