"""What the endpoint counts."""

import asyncio
from collections import Counter
from typing import Any

METHODS = (
    "Route",
    "RouteStream",
    "Report",
    "Decide",
    "Explain",
    "Generate",
    "ListWorkers",
    "AddWorker",
    "DrainWorker",
    "RemoveWorker",
    "WatchWorkers",
)


class Stats:
    """Counters of calls. One loop's thread writes them."""

    def __init__(self) -> None:
        """Start from nothing."""
        self.calls: Counter[tuple[str, str]] = Counter({(method, "OK"): 0 for method in METHODS})
        self.open = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self.messages = 0
        self.chunks = 0
        self.retries = 0
        self.retries_denied = 0

    def enter(self) -> None:
        """A call came."""
        self.open += 1
        self.idle.clear()

    def leave(self) -> None:
        """A call has ended."""
        self.open -= 1
        if not self.open:
            self.idle.set()

    def read(self) -> dict[str, Any]:
        """The counts of the moment."""
        return {
            "calls": dict(self.calls),
            "calls_open": self.open,
            "stream_messages": self.messages,
            "chunks": self.chunks,
            "retries": self.retries,
            "retries_denied": self.retries_denied,
        }
