"""Plays a workload against a router and notes, for each request, what was predicted and what was cached."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.support.http import request
from tests.support.workload import Asked, Workload


@dataclass(frozen=True)
class Answer:
    """What became of one request; `overlap_tokens` is the prediction. Times are monotonic, in seconds."""

    asked: Asked
    status: int
    began: float
    ended: float
    worker: str = ""
    prompt_tokens: int = 0
    overlap_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    @property
    def error_tokens(self) -> int:
        """What was cached less what was predicted."""
        return self.cached_tokens - self.overlap_tokens


async def play(port: int, workload: Workload, clients: int, wanted: Iterable[object]) -> list[Answer]:
    """Sends a request for each of `wanted`, from clients that wait for their reply; gives all answers."""
    answers: list[Answer] = []
    left = iter(wanted)

    async def client() -> None:
        for _ in left:
            answers.insert(len(answers), await answer(port, workload))

    await asyncio.gather(*(client() for _ in range(clients)))
    return answers


def seconds(duration: float) -> Iterator[None]:
    """What is wanted for so long."""
    until = time.monotonic() + duration
    while time.monotonic() < until:
        yield


async def answer(port: int, workload: Workload) -> Answer:
    """Sends the next request of the workload."""
    asked = workload.next()
    began = time.monotonic()
    reply = None
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        reply = await request(port, asked.path, asked.body)
    ended = time.monotonic()
    if reply is None or reply.status != 200:
        return Answer(asked, 0 if reply is None else reply.status, began, ended)
    document = reply.json()
    usage = document["usage"]
    if "prompt" in asked.body:
        workload.replied(asked, document["choices"][0]["token_ids"])
    return Answer(
        asked,
        reply.status,
        began,
        ended,
        worker=reply.get("x-warmroute-worker") or "",
        prompt_tokens=usage["prompt_tokens"],
        overlap_tokens=int(reply.get("x-warmroute-overlap-tokens") or 0),
        cached_tokens=(usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0,
        output_tokens=usage["completion_tokens"],
    )
