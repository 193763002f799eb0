"""One play: fresh workers, a fresh router, and clients that never pause; figures after a warm-up."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import aiohttp

from warmroute.demo.client import Client, Failed, Turn
from warmroute.demo.figures import Figures, Reading, judge, reading
from warmroute.demo.router import router
from warmroute.demo.scenario import Bodies, Scenario, system_prompt
from warmroute.native import SimServer
from warmroute.sim import TOKENIZER

HOST = "127.0.0.1"
MODEL = "sim"
# Tokens a second of a cold 8,192-token prefill on an A100 with an 8B model.
A100_PREFILL_RATE = 14_870.0
SPILL_MARGIN_MS = 100
WARM_UP_SHARE = 0.3
PROBE_INTERVAL_MS = 100
READY_TIMEOUT_S = 30.0
FAILED_PAUSE_S = 0.2
RECENT_TURNS = 100
SAMPLE_CHARACTERS = 20_000

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a play is run: real seconds of one play, and simulated seconds in a real one."""

    scenario: Scenario
    seconds: float
    speed: float


@dataclass(slots=True)
class Tally:
    """What the clients have seen so far."""

    turns: list[Turn] = field(default_factory=list)
    failed: int = 0
    last_failure: str = ""

    def hit_rate(self) -> float:
        """The hit rate of the latest turns."""
        recent = self.turns[-RECENT_TURNS:]
        asked = sum(turn.prompt_tokens for turn in recent)
        return sum(turn.cached_tokens for turn in recent) / asked if asked else 0.0


class Play:
    """The scenario under one policy."""

    def __init__(self, name: str, policy: str, settings: Settings, show: Show) -> None:
        """Take the play's name, the router's policy, how to run, and what shows the progress."""
        self._name = name
        self._policy = policy
        self._settings = settings
        self._show = show
        self._tally = Tally()

    async def run(self) -> Figures:
        """Play, and judge; whatever was started has ended when this returns or raises."""
        scenario = self._settings.scenario
        with _workers(scenario.workers, self._settings.speed) as workers:
            self._show(f"{self._name}: starting")
            urls = [f"http://{HOST}:{worker.port}" for worker in workers]
            async with aiohttp.ClientSession() as session, router(self._arguments(urls)) as port:
                await _ready(session, port, len(urls))
                bodies = Bodies(scenario, MODEL, await _characters_per_token(session, urls[0]))
                async with self._clients(bodies, port):
                    return await self._judged(workers)

    def _arguments(self, urls: Sequence[str]) -> list[str]:
        speed = self._settings.speed
        return [
            *(f"--worker=w{number}={url}" for number, url in enumerate(urls, 1)),
            f"--policy={self._policy}",
            f"--tokenizer={TOKENIZER}",
            f"--probe-interval-ms={PROBE_INTERVAL_MS}",
            # The workers are faster than real ones by the speed, and the router is told so.
            f"--prefill-tokens-per-second={A100_PREFILL_RATE * speed}",
            f"--spill-margin-ms={round(SPILL_MARGIN_MS / speed)}",
        ]

    async def _judged(self, workers: Sequence[SimServer]) -> Figures:
        start = perf_counter()
        await self._watch(start, start + self._settings.seconds * WARM_UP_SHARE)
        before = _read(workers)
        await self._watch(start, start + self._settings.seconds)
        after = _read(workers)
        figures = judge(self._tally.turns, before, after, self._settings.speed)
        return replace(figures, failed=self._tally.failed, last_failure=self._tally.last_failure)

    async def _watch(self, start: float, until: float) -> None:
        """Show the progress until a moment."""
        while (now := perf_counter()) < until:
            failed = f", {self._tally.failed} failed" if self._tally.failed else ""
            self._show(
                f"{self._name:<12} {now - start:3.0f} of {self._settings.seconds:.0f} s   "
                f"{len(self._tally.turns):5} requests, hit rate {self._tally.hit_rate():4.0%}{failed}"
            )
            await asyncio.sleep(min(0.5, until - now))

    @contextlib.asynccontextmanager
    async def _clients(self, bodies: Bodies, port: int) -> AsyncIterator[None]:
        scenario = self._settings.scenario
        tasks = [
            asyncio.create_task(self._talk(random.Random(f"{scenario.seed}/client/{number}"), bodies, port))
            for number in range(scenario.clients)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _talk(self, generator: random.Random, bodies: Bodies, port: int) -> None:
        """One client: the next turn as soon as the last one has ended."""
        client = Client(HOST, port)
        try:
            while True:
                try:
                    self._tally.turns.append(await client.ask(bodies.turn(generator)))
                except (Failed, OSError) as error:
                    self._tally.failed += 1
                    self._tally.last_failure = str(error)
                    await asyncio.sleep(FAILED_PAUSE_S)
        finally:
            client.close()


@contextlib.contextmanager
def _workers(count: int, speed: float) -> Iterator[list[SimServer]]:
    with contextlib.ExitStack() as stack:
        workers = []
        for _ in range(count):
            worker = SimServer(host=HOST, port=0, model=MODEL, tokenizer=str(TOKENIZER), speed=speed)
            stack.callback(worker.stop)
            workers.append(worker)
        yield workers


def _read(workers: Sequence[SimServer]) -> Reading:
    return reading(perf_counter(), [worker.stats() for worker in workers])


async def _ready(session: aiohttp.ClientSession, port: int, workers: int) -> None:
    """Wait until the router has taken in every worker."""
    async with asyncio.timeout(READY_TIMEOUT_S):
        while True:
            async with session.get(f"http://{HOST}:{port}/warmroute/v1/workers") as response:
                known = (await response.json())["workers"]
            if sum(worker["state"] == "ready" for worker in known) == workers:
                return
            await asyncio.sleep(0.05)


async def _characters_per_token(session: aiohttp.ClientSession, url: str) -> float:
    """How long a token of the demo's texts is, measured on one of them."""
    text = system_prompt(0, 0, SAMPLE_CHARACTERS)
    async with session.post(f"{url}/tokenize", json={"model": MODEL, "prompt": text}) as response:
        return len(text) / float((await response.json())["count"])
