"""Two real vLLM workers with small caches, what listens to them, and a router in front."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import engine
from tests.support.capture import Capture
from tests.support.engine import Engine
from tests.support.http import request
from tests.support.process import Router, free_port
from tests.support.truth import Compared, compare

FLAGS = ("--block-size", str(engine.BLOCK_TOKENS), "--probe-interval-ms", "500")


@dataclass
class Workers:
    """The engines, by the names that the router gives them."""

    model: Path
    engines: dict[str, Engine]
    captures: dict[str, Capture]

    @contextlib.asynccontextmanager
    async def routed(self, log: Path, *flags: str) -> AsyncIterator[Router]:
        """A router that has seen all of them."""
        named = [f"{name}={one.url}" for name, one in self.engines.items()]
        async with Router(log, named, *FLAGS, "--tokenizer", str(self.model), *flags) as router:
            await router.sees_ready(len(named))
            yield router

    async def compare(self, router: Router) -> list[Compared]:
        """Holds the router's index against each worker that is up. Nothing may be running."""
        up = [worker["name"] for worker in await router.workers() if worker["state"] == "ready"]
        return [await compare(router, name, self.captures[name]) for name in up]

    async def reset(self, name: str, *, running: bool = False) -> None:
        """Empties a worker's prefix cache, where `running` also while it has requests."""
        query = "?reset_running_requests=true" if running else ""
        reply = await request(self.engines[name].port, f"/reset_prefix_cache{query}", b"", method="POST")
        assert reply.status == 200, reply.body

    async def restart(self, name: str) -> None:
        """Ends a worker without a warning, and starts another process in its place."""
        one = self.engines[name]
        await asyncio.to_thread(one.kill)
        one.start()
        await asyncio.to_thread(one.wait)


@contextlib.contextmanager
def workers(blocks: int) -> Iterator[Workers]:
    """Starts two workers of so many KV blocks; raises `LookupError` where there is no engine kit."""
    kit = engine.kit()
    if kit is None:
        raise LookupError(engine.absence())
    venv = engine.venv(kit)
    model = engine.made_model(kit, venv, "tiny")
    with contextlib.ExitStack() as stack:
        engines = {name: Engine(kit, venv, model, free_port(), blocks=blocks) for name in ("w0", "w1")}
        for one in engines.values():
            stack.callback(one.stop)
            one.start()
        for one in engines.values():
            one.wait()
        captures = {name: Capture(one.events_endpoint, one.replay_endpoint) for name, one in engines.items()}
        for capture in captures.values():
            stack.callback(capture.close)
        yield Workers(model, engines, captures)
