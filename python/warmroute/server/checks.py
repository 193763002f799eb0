"""Tokens made here beside those of the reference: counted for the metrics, and loud where they differ."""

import asyncio
from typing import Any, Protocol

from warmroute.logs import get

log = get("server")

INTERVAL_S = 5.0


class PrompterPort(Protocol):
    """Whoever checks a part of the prompts."""

    def check_stats(self) -> dict[str, Any]:
        """What was checked, what differed, and the first difference of each model."""


class Checks:
    """What a prompter's checks found."""

    def __init__(self, prompter: PrompterPort) -> None:
        """Take whom to ask."""
        self._prompter = prompter

    def read(self) -> dict[str, Any]:
        """The counts; the first difference of a model is logged once."""
        stats = self._prompter.check_stats()
        for first in stats["first"]:
            log.once(
                first["model"],
                "tokens made here differ from the reference tokenizer's: affinity of this model suffers",
                **first,
            )
        if stats["failed"]:
            log.once("failed", "a check of tokens came to no end: report it as a bug", failed=stats["failed"])
        return stats

    async def watch(self) -> None:
        """Read again and again, so that the log does not wait for a scrape."""
        while True:
            self.read()
            await asyncio.sleep(INTERVAL_S)
