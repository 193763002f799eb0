"""Tasks that run beside the requests: none of them fails unseen, and none stays away after a fault."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, get_args

from warmroute.logs import get

Kind = Literal["checks", "truth", "discovery", "leave", "look", "scrape", "grpc_health", "grpc_leases"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# The first and the longest pause before a task that failed is started again, in seconds: a fault that lasts
# must neither fill the log nor keep a worker unwatched for long.
PAUSE_S = (0.5, 5.0)

log = get("tasks")


class Tasks:
    """Starts tasks again that failed, and counts how often. A task that returns has ended.

    Every fault is one of ours: whoever runs here handles what others do wrong itself.
    """

    def __init__(self, pause_s: tuple[float, float] = PAUSE_S) -> None:
        """Take the first and the longest pause after a failure, in seconds."""
        self._pause_s = pause_s
        self._failures: dict[str, int] = dict.fromkeys(KINDS, 0)

    def start(self, kind: Kind, run: Callable[[], Awaitable[None]], **about: Any) -> asyncio.Task[None]:
        """Run what `run` gives, anew after each failure, until it returns or the task is cancelled.

        `about` says in the log which one of its kind it is.
        """
        name = " ".join([kind, *map(str, about.values())])
        return asyncio.create_task(self._keep(kind, run, about), name=name)

    def failures(self) -> Mapping[str, int]:
        """How often tasks failed, by kind; every kind is there."""
        return dict(self._failures)

    async def _keep(self, kind: Kind, run: Callable[[], Awaitable[None]], about: Mapping[str, Any]) -> None:
        first, longest = self._pause_s
        loop, pause_s = asyncio.get_running_loop(), first
        while True:
            began = loop.time()
            try:
                await run()
            except Exception:
                if loop.time() - began > longest:
                    pause_s = first
                self._failures[kind] += 1
                log.exception("a task failed; it is started again", task=kind, pause_s=pause_s, **about)
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, longest)


async def stop(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
