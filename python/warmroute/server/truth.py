"""Says which workers are not what is predicted of them, and what to change."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from warmroute.logs import get

INTERVAL_S = 5.0

log = get("truth")


class Truth:
    """Looks at the reports of all workers again and again, and says a fault once while it lasts."""

    def __init__(
        self, workers: Callable[[], list[dict[str, Any]]], events: Callable[[], Mapping[str, Any]]
    ) -> None:
        """Take what reads the router's workers, and the events that are followed, by worker."""
        self._workers = workers
        self._events = events
        self._said: set[str] = set()

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            self.look()

    def look(self) -> None:
        """Say what is new."""
        suspects = {worker["name"] for worker in self._workers() if worker["suspect"]}
        events = self._events() if suspects - self._said else {}
        for name in sorted(suspects - self._said):
            log.warning("predictions for the worker are wrong: " + advice(events.get(name)), worker=name)
        self._said = suspects


def advice(events: Mapping[str, Any] | None) -> str:
    """What is most likely set wrongly, from the counters of a worker's events."""
    if events is None:
        return (
            "it sends no KV events and holds less than is assumed: start it with --kv-events-config, see "
            "that its prefix caching is on, or set kv_blocks"
        )
    if events["odd_blocks"]:
        size = events["odd_block_size"]
        return f"its KV blocks have {size} tokens: set the router's block_size to {size}"
    if events["faults"]:
        return f"its KV events cannot be read ({events['fault']})"
    if events["age_s"] is None:
        return "no KV event has come from it: see that kv_events_endpoint and its topic are the worker's"
    if events["losses"]:
        return _loss(events)
    return "it sees other tokens than are made here: set --tokenizer and --chat-template to the worker's own"


def _loss(events: Mapping[str, Any]) -> str:
    if events["forgotten_blocks"]:
        return (
            "its KV events name more blocks than it has, or than there is room for: see that its kv_blocks "
            "are right, or raise index_bytes"
        )
    return "KV events were lost: give the worker a replay_endpoint, or more buffer_steps"
