"""Watches the workers, each in a task of its own, and pushes what it learns into the router."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from warmroute.config import FleetOptions, WorkerOptions
from warmroute.errors import WorkerError, WorkerTimeout, WorkerUnreachable
from warmroute.fleet.facts import Facts
from warmroute.fleet.gauges import Gauges
from warmroute.fleet.health import Health, Status
from warmroute.fleet.ports import ClientPort, FollowerPort, RouterPort, ScraperPort, VerifierPort
from warmroute.fleet.pulse import Pulse
from warmroute.fleet.state import WorkerState, is_another_process, models_of, terms
from warmroute.fleet.trust import Trust
from warmroute.fleet.verdict import Verdict
from warmroute.logs import get
from warmroute.tasks import Tasks, stop

# How long a worker that did not say how it tokenizes is left alone before it is asked again.
VERIFY_AGAIN_S = 60.0

log = get("fleet")


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
        scraper: ScraperPort | None = None,
        generator: random.Random | None = None,
        tasks: Tasks | None = None,
    ) -> None:
        """Take where to push, how to look, the options, the router's block size in tokens.

        Without a verifier and what its verdicts go to, no worker's tokens are compared with ours; without a
        follower no KV events are followed; without a scraper nothing is known of what others send. `tasks`
        runs the watch of each worker.
        """
        self._router = router
        self._client = client
        self._options = options
        self._block_size = block_size
        self._verifier = verifier
        self._trust = trust
        self._follower = follower
        self._scraper = scraper
        self._random = generator or random.Random()  # noqa: S311 - moves looks apart, decides nothing
        # Whoever learns may take seconds, and must not keep the looks at others waiting; nor must those that
        # join keep those waiting that serve.
        self._looks = asyncio.Semaphore(options.probe_concurrency)
        self._joins = asyncio.Semaphore(options.probe_concurrency)
        self._refreshes = asyncio.Semaphore(options.probe_concurrency)
        self._runner = tasks or Tasks()
        self._states: dict[str, WorkerState] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._listeners: list[Callable[[str], None]] = []

    def listen(self, changed: Callable[[str], None]) -> None:
        """Have a callback told the name of each worker that joins, changes or leaves. It must not block."""
        self._listeners.append(changed)

    def add(self, options: WorkerOptions, source: str = "", base: str | None = None) -> None:
        """Start to watch a worker. It is taken in when it is up.

        `source` says who knows of it; `base` is the worker whose URL serves it as a further rank.
        """
        pulse = Pulse(self._options.freeze_timeout_ms / 1000)
        state = WorkerState(options, Health(self._options.probe_failures), pulse, source, base)
        state.told = terms(options, Facts(), self._block_size)
        self._router.add_worker(state.name, **state.told)
        self._router.set_ready(state.name, False)
        self._states[state.name] = state
        task = self._runner.start("look", lambda: self._watch(state), worker=state.name)
        self._tasks[state.name] = task
        if self._scraper is not None:
            self._scraper.add(state, lambda gauges: self._saw(state, gauges))
        self._tell(state.name)

    def update(self, options: WorkerOptions, source: str) -> None:
        """Take other options for a worker of the same name and URL; what it holds and does stays."""
        state = self._states[options.name or options.url]
        state.source = source
        ranks = self._further(state.name)
        if ranks and options.dp_rank is None:
            # It was made one rank of several.
            options = replace(options, dp_rank=state.options.dp_rank)
        if options == state.options:
            return
        state.options, state.stale = options, True
        self._push(state)
        for further in ranks:
            self.update(replace(options, name=further.name, dp_rank=further.options.dp_rank), source)
        self._tell(state.name)

    def drain(self, name: str) -> None:
        """Give a worker nothing more; what it has goes on."""
        for state in self._group(name):
            if not state.draining:
                state.draining = True
                self._router.drain_worker(state.name)
                self._tell(state.name)

    def resume(self, name: str) -> None:
        """Take a worker that drains back."""
        for state in self._group(name):
            if state.draining:
                state.draining = False
                self._router.resume_worker(state.name)
                self._tell(state.name)

    def is_idle(self, name: str) -> bool:
        """Whether a worker has nothing that would be waited for: no request, or it does not answer."""
        return all(
            state.health.status is not Status.UP or self._router.worker_activity(state.name)[0] == 0
            for state in self._group(name)
        )

    def remove(self, name: str) -> None:
        """Stop to watch a worker, and make the router forget it."""
        for state in self._group(name):
            self._distrust(state.name)
            if self._scraper is not None:
                self._scraper.remove(state.name)
            if self._follower is not None:
                self._follower.forget(state.name)
            self._router.remove_worker(state.name)
            # Last, so that what failed before can be tried again.
            self._tasks.pop(state.name).cancel()
            del self._states[state.name]
            self._tell(state.name)

    async def close(self) -> None:
        """Stop to watch; the router keeps what it knows."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        await stop(tasks)

    def states(self) -> list[WorkerState]:
        """Every worker, in the order in which they were added."""
        return list(self._states.values())

    def state(self, name: str) -> WorkerState | None:
        """The worker of this name."""
        return self._states.get(name)

    def is_up_at(self, url: str) -> bool:
        """Whether a worker at this URL is up."""
        return any(
            state.options.url == url and state.health.status is Status.UP for state in self._states.values()
        )

    def is_ready(self) -> bool:
        """Whether any worker is up."""
        return any(state.health.status is Status.UP and not state.draining for state in self._states.values())

    def _group(self, name: str) -> list[WorkerState]:
        """A worker, and the further data-parallel ranks behind its URL."""
        return [self._states[name], *self._further(name)]

    def _further(self, name: str) -> list[WorkerState]:
        return [state for state in self._states.values() if state.base == name]

    def _tell(self, name: str) -> None:
        for changed in self._listeners:
            changed(name)

    async def _watch(self, state: WorkerState) -> None:
        while True:
            await self._look(state)
            spread = self._options.probe_jitter
            await asyncio.sleep(
                self._options.probe_interval_ms / 1000 * self._random.uniform(1 - spread, 1 + spread)
            )

    async def _look(self, state: WorkerState) -> None:
        try:
            async with self._looks:
                await self._client.health(state.options)
            await self._check_steps(state)
            await self._keep_known(state)
        except WorkerError as error:
            if not self._is_busy(state, error):
                self._failed(state, error)
            return
        state.error, state.slow = "", False
        # That it refused connections may be all that tells of another process: it counts until it is learnt.
        state.refused &= state.stale
        if state.health.good():
            self._router.set_ready(state.name, True)
            if self._follower is not None:
                self._follower.came_up(state.name)
            log.info("worker is up", worker=state.name, url=state.options.url)
            self._tell(state.name)

    async def _keep_known(self, state: WorkerState) -> None:
        """Learn again what is due. A worker that is up is not left unwatched for want of a turn."""
        is_up = state.health.status is Status.UP
        turns = self._refreshes if is_up else self._joins
        if not _is_due(state) or (is_up and turns.locked()):
            return
        async with turns:
            if state.stale or _now() >= state.learn_at:
                options = state.options
                await self._learn(state, await self._client.facts(options), options)
            else:
                await self._verify(state)

    def _is_busy(self, state: WorkerState, error: WorkerError) -> bool:
        """Whether a worker that does not answer in time has a reason: its requests move or prefill."""
        requests = self._take_pulse(state)
        if not isinstance(error, WorkerTimeout) or state.health.status is not Status.UP:
            return False
        if requests == 0 or state.pulse.is_still(_now()):
            return False
        if not state.slow:
            log.warning("worker is slow to answer while its requests run", worker=state.name, error=error)
        state.error, state.slow = f"slow, but its requests run: {error}", True
        return True

    async def _check_steps(self, state: WorkerState) -> None:
        """Raise `WorkerError` for an engine that stands still behind an API that answers.

        It is taken back when it moves, is another process, or computes a token that it is asked for.
        """
        self._take_pulse(state)
        if state.frozen_at is not None:
            if state.frozen_at == state.pulse.signs:
                async with self._joins:
                    await self._try_out(state)
            state.frozen_at = None
        elif state.health.status is Status.UP and state.pulse.is_frozen():
            state.frozen_at = state.pulse.signs
            raise WorkerTimeout("its engine makes no step, and its requests do not move")

    async def _try_out(self, state: WorkerState) -> None:
        facts = await self._client.facts(state.options)
        if not is_another_process(state.facts, facts):
            model = next(iter(models_of(state)), None)
            await self._client.trial(state.options, model.id if model else "")

    def _take_pulse(self, state: WorkerState) -> int:
        """Look at the worker's requests; gives how many there are."""
        requests, moves, wait_s = self._router.worker_activity(state.name)
        state.pulse.activity(_now(), requests, moves, wait_s)
        return requests

    def _saw(self, state: WorkerState, gauges: Gauges) -> None:
        state.pulse.steps(_now(), gauges.steps)
        if gauges.started is not None and gauges.started != state.facts.started:
            # Another process: the next look learns what it is.
            state.stale = True

    def _failed(self, state: WorkerState, error: WorkerError) -> None:
        # It may come back as another process, with another model and an empty cache.
        state.stale = True
        state.refused |= isinstance(error, WorkerUnreachable)
        state.error, state.slow = str(error), False
        if state.health.bad(at_once=state.frozen_at is not None):
            self._router.set_ready(state.name, False)
            self._distrust(state.name)
            log.warning("worker is down", worker=state.name, url=state.options.url, error=error)
            self._tell(state.name)

    async def _learn(self, state: WorkerState, facts: Facts, asked: WorkerOptions) -> None:
        self._push(state, facts)
        was_up = state.health.status is Status.UP
        # Where it does not say when it began, nobody listening in between tells that it began anew.
        unsaid = facts.started is None and state.refused
        restarted = was_up and (unsaid or is_another_process(state.facts, facts))
        if restarted:
            log.info("worker was restarted; its cache is empty", worker=state.name)
            # What is not ready has lost its cache: the router forgets what the old process held.
            self._router.set_ready(state.name, False)
            if self._follower is not None:
                self._follower.restarted(state.name)
        known = facts.started is not None or not state.stale
        same = was_up and not restarted and known and facts.models == state.facts.models
        # Whoever changed the options meanwhile wants another look.
        state.facts, state.stale = facts, state.options is not asked
        spread = self._random.uniform(1 - self._options.probe_jitter, 1)
        state.learn_at = _now() + self._options.facts_interval_ms / 1000 * spread
        if not same:
            # Before it is ready: a prompt must not be encoded in a way that its worker does not share.
            await self._verify(state)
            await self._follow(state)
        if restarted:
            self._router.set_ready(state.name, True)
        if not same:
            self._tell(state.name)
        self._warn(state)

    async def _follow(self, state: WorkerState) -> None:
        if self._follower is None:
            return
        size = state.options.block_size or state.facts.block_size
        if size is not None and size % self._block_size and self._block_size % size:
            # Neither size is a multiple of the other: what its events say cannot be written down.
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
        self._push(state)
        for rank in others:
            name = f"{state.name}@{rank}"
            if name not in self._states:
                self.add(replace(options, name=name, dp_rank=rank), state.source, state.name)
                if state.draining:
                    self.drain(name)

    async def _verify(self, state: WorkerState) -> None:
        if self._verifier is None or self._trust is None:
            return
        verdicts = await self._verifier.verify(state.options, models_of(state))
        self._trust.learn(state.name, verdicts)
        again = any(verdict.error and not verdict.lasting for verdict in verdicts.values())
        state.verify_at = _now() + VERIFY_AGAIN_S if again else None
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
            self._push(state)

    def _push(self, state: WorkerState, facts: Facts | None = None) -> None:
        """Tell the router what is known of a worker, once: it holds the lock of all decisions meanwhile."""
        told = terms(state.options, facts or state.facts, self._block_size)
        if told != state.told:
            self._router.update_worker(state.name, **told)
            state.told = told

    def _distrust(self, name: str) -> None:
        if self._trust is not None:
            self._trust.forget(name)

    def _warn(self, state: WorkerState) -> None:
        size = state.options.block_size or state.facts.block_size
        if size is not None and size != self._block_size:
            log.once(
                state.name,
                "block size differs: set the router's block_size to the workers', or overlaps are inexact",
                worker=state.name,
                worker_block_size=size,
                router_block_size=self._block_size,
            )
        if state.told["kv_blocks"] is None:
            log.once(state.name, "the worker's KV blocks are not known: set kv_blocks", worker=state.name)
        if state.facts.prefix_caching is False:
            log.once(
                state.name, "the worker has prefix caching off: it never holds a prefix", worker=state.name
            )


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_due(state: WorkerState) -> bool:
    asks_again = state.verify_at is not None and _now() >= state.verify_at
    return state.stale or asks_again or _now() >= state.learn_at
