"""Watches the workers, each in a task of its own, and pushes what it learns into the router."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from warmroute.config import FleetOptions, WorkerOptions
from warmroute.errors import WorkerError
from warmroute.fleet.facts import Facts, Model
from warmroute.fleet.health import Health, Status
from warmroute.fleet.trust import Trust
from warmroute.fleet.verdict import Verdict
from warmroute.logs import get

# How long a worker that did not say how it tokenizes is left alone before it is asked again.
VERIFY_AGAIN_S = 60.0

log = get("fleet")


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

    def remove_worker(self, name: str) -> None:
        """Forget a worker and what it holds."""


class ClientPort(Protocol):
    """How the fleet looks at a worker."""

    async def health(self, worker: WorkerOptions) -> None:
        """Raise `WorkerError` unless the worker is healthy."""

    async def facts(self, worker: WorkerOptions) -> Facts:
        """Learn what the worker serves, or raise `WorkerError`."""


class VerifierPort(Protocol):
    """Whoever compares a worker's tokens with ours."""

    async def verify(self, worker: WorkerOptions, models: Sequence[Model]) -> dict[str, Verdict]:
        """The verdict on each of the worker's models that has a tokenizer here."""


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


@dataclass(slots=True)
class WorkerState:
    """One worker as the fleet knows it."""

    options: WorkerOptions
    health: Health
    facts: Facts = field(default_factory=Facts)
    error: str = ""
    stale: bool = True
    verify_at: float | None = None

    @property
    def name(self) -> str:
        """The worker's name."""
        return self.options.name or self.options.url


class Fleet:
    """The workers we know. They may come and go: whoever discovers them calls `add` and `remove`."""

    def __init__(
        self,
        router: RouterPort,
        client: ClientPort,
        options: FleetOptions,
        *,
        block_size: int,
        verifier: VerifierPort | None = None,
        trust: Trust | None = None,
        follower: FollowerPort | None = None,
        generator: random.Random | None = None,
    ) -> None:
        """Take where to push, how to look, the options, the router's block size in tokens.

        Without a verifier and what its verdicts go to, no worker's tokens are compared with ours; without a
        follower no KV events are followed.
        """
        self._router = router
        self._client = client
        self._options = options
        self._block_size = block_size
        self._verifier = verifier
        self._trust = trust
        self._follower = follower
        self._random = generator or random.Random()  # noqa: S311 - moves looks apart, decides nothing
        self._looks = asyncio.Semaphore(options.probe_concurrency)
        self._states: dict[str, WorkerState] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, options: WorkerOptions) -> None:
        """Start to watch a worker. It is taken in when it is up."""
        state = WorkerState(options, Health(self._options.probe_failures))
        self._router.add_worker(state.name, **_terms(options, Facts(), self._block_size))
        self._router.set_ready(state.name, False)
        self._states[state.name] = state
        self._tasks[state.name] = asyncio.create_task(self._watch(state), name=f"watch {state.name}")

    async def remove(self, name: str) -> None:
        """Stop to watch a worker, and make the router forget it."""
        task = self._tasks.pop(name)
        await _stop([task])
        del self._states[name]
        self._distrust(name)
        if self._follower is not None:
            self._follower.forget(name)
        self._router.remove_worker(name)

    async def close(self) -> None:
        """Stop to watch; the router keeps what it knows."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        await _stop(tasks)

    def states(self) -> list[WorkerState]:
        """Every worker, in the order in which they were added."""
        return list(self._states.values())

    def is_ready(self) -> bool:
        """Whether any worker is up."""
        return any(state.health.status is Status.UP for state in self._states.values())

    async def _watch(self, state: WorkerState) -> None:
        while True:
            try:
                async with self._looks:
                    await self._look(state)
            except Exception:
                # A fault of ours in one look must not end the watch: the worker would stay as it is for ever.
                log.exception("a look failed", worker=state.name)
            spread = self._options.probe_jitter
            await asyncio.sleep(
                self._options.probe_interval_ms / 1000 * self._random.uniform(1 - spread, 1 + spread)
            )

    async def _look(self, state: WorkerState) -> None:
        try:
            await self._client.health(state.options)
            if state.stale:
                await self._learn(state, await self._client.facts(state.options))
            elif state.verify_at is not None and asyncio.get_running_loop().time() >= state.verify_at:
                await self._verify(state)
        except WorkerError as error:
            self._failed(state, error)
            return
        state.error = ""
        if state.health.good():
            self._router.set_ready(state.name, True)
            if self._follower is not None:
                self._follower.came_up(state.name)
            log.info("worker is up", worker=state.name, url=state.options.url)

    def _failed(self, state: WorkerState, error: WorkerError) -> None:
        # It may come back as another process, with another model and an empty cache.
        state.stale = True
        state.error = str(error)
        if state.health.bad():
            self._router.set_ready(state.name, False)
            self._distrust(state.name)
            log.warning("worker is down", worker=state.name, url=state.options.url, error=error)

    async def _learn(self, state: WorkerState, facts: Facts) -> None:
        terms = _terms(state.options, facts, self._block_size)
        self._router.update_worker(state.name, **terms)
        was_up = state.health.status is Status.UP
        restarted = was_up and _restarted(state.facts, facts)
        if restarted:
            log.info("worker was restarted; its cache is empty", worker=state.name)
            # What is not ready has lost its cache: the router forgets what the old process held.
            self._router.set_ready(state.name, False)
            if self._follower is not None:
                self._follower.restarted(state.name)
        same = was_up and not restarted and facts.started is not None and facts.models == state.facts.models
        state.facts, state.stale = facts, False
        if not same:
            # Before it is ready: a prompt must not be encoded in a way that its worker does not share.
            await self._verify(state)
            await self._follow(state)
        if restarted:
            self._router.set_ready(state.name, True)
        self._warn(state, terms)

    async def _follow(self, state: WorkerState) -> None:
        if self._follower is None:
            return
        size = state.options.block_size or state.facts.block_size
        if size is not None and size % self._block_size:
            # Its blocks are no whole number of ours: what its events say cannot be written down.
            self._follower.forget(state.name)
            return
        ranks = await self._follower.learn(state.name, state.options)
        if len(ranks) > 1 and state.options.dp_rank is None:
            self._split(state, ranks)

    def _split(self, state: WorkerState, ranks: Sequence[int]) -> None:
        """Make a worker of each data-parallel rank behind one URL: each has a KV cache of its own."""
        first, *others = ranks
        log.info("the URL serves several data-parallel ranks", worker=state.name, ranks=len(ranks))
        options = state.options
        state.options = replace(options, dp_rank=first)
        self._router.update_worker(state.name, **_terms(state.options, state.facts, self._block_size))
        for rank in others:
            name = f"{state.name}@{rank}"
            if name not in self._states:
                self.add(replace(options, name=name, dp_rank=rank))

    async def _verify(self, state: WorkerState) -> None:
        if self._verifier is None or self._trust is None:
            return
        verdicts = await self._verifier.verify(state.options, _models(state))
        self._trust.learn(state.name, verdicts)
        again = any(verdict.error and not verdict.lasting for verdict in verdicts.values())
        state.verify_at = asyncio.get_running_loop().time() + VERIFY_AGAIN_S if again else None
        self._learn_length(state, verdicts)

    def _learn_length(self, state: WorkerState, verdicts: dict[str, Verdict]) -> None:
        """Take the longest context from `/tokenize` where `/v1/models` does not say it."""
        told = {model: verdict.max_model_len for model, verdict in verdicts.items()}
        models = tuple(
            model if model.max_model_len else replace(model, max_model_len=told.get(model.id))
            for model in state.facts.models
        )
        if models != state.facts.models:
            state.facts = replace(state.facts, models=models)
            self._router.update_worker(state.name, **_terms(state.options, state.facts, self._block_size))

    def _distrust(self, name: str) -> None:
        if self._trust is not None:
            self._trust.forget(name)

    def _warn(self, state: WorkerState, terms: dict[str, Any]) -> None:
        size = state.options.block_size or state.facts.block_size
        if size is not None and size != self._block_size:
            log.once(
                state.name,
                "block size differs: set the router's block_size to the workers', or overlaps are inexact",
                worker=state.name,
                worker_block_size=size,
                router_block_size=self._block_size,
            )
        if terms["kv_blocks"] is None:
            log.once(state.name, "the worker's KV blocks are not known: set kv_blocks", worker=state.name)
        if state.facts.prefix_caching is False:
            log.once(
                state.name, "the worker has prefix caching off: it never holds a prefix", worker=state.name
            )


def _terms(options: WorkerOptions, facts: Facts, block_size: int) -> dict[str, Any]:
    """What the router is told: the configuration first, then what the worker says."""
    kv_blocks = options.kv_blocks or facts.kv_blocks
    own_size = options.block_size or facts.block_size or block_size
    return {
        "url": options.url,
        # The router counts in its own blocks, also where the worker cuts its KV cache otherwise.
        "kv_blocks": max(1, kv_blocks * own_size // block_size) if kv_blocks else None,
        "block_size": block_size,
        "models": options.models or tuple(model.id for model in facts.models),
        "adapters": tuple(model.id for model in facts.models if model.parent),
        "max_model_len": options.max_model_len or facts.max_model_len,
        "max_requests": options.max_requests,
        "dp_rank": options.dp_rank,
    }


def _models(state: WorkerState) -> list[Model]:
    """What the worker serves: the configuration first, then what the worker says."""
    known = {model.id: model for model in state.facts.models}
    return [known.get(name, Model(name)) for name in state.options.models or known]


def _restarted(before: Facts, after: Facts) -> bool:
    """Whether it is another process than before, although it never was down for long enough to count."""
    return before.started is not None and after.started is not None and before.started != after.started


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
