"""Holds what the router's index says of a worker against what the worker's own events say."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tests.support.capture import Capture
from tests.support.process import Router

SECONDS = 10.0


@dataclass(frozen=True)
class Compared:
    """One worker at a quiet point: the engine's blocks, and those that only one of the two knows."""

    worker: str
    batches: int
    engine_blocks: int
    confirmed_blocks: int
    missing: int
    too_many: int
    seconds: float

    @property
    def equal(self) -> bool:
        """Whether the index has the engine's blocks, all of them and no others."""
        return self.missing == self.too_many == 0 and self.engine_blocks == self.confirmed_blocks


async def compare(router: Router, worker: str, capture: Capture) -> Compared:
    """Compares a worker's sets of blocks, once the router and the capture have taken the same batches.

    Nothing may be asked of the worker meanwhile. Where they never come to the same batch, they are not equal.
    """
    began = time.monotonic()
    while True:
        await asyncio.to_thread(capture.catch_up)
        told = await confirmed(router, worker)
        number, held = capture.held()
        if (told["live"] and told["next"] == number) or time.monotonic() - began > SECONDS:
            break
        await asyncio.sleep(0.01)
    names = {int(name, 16) for name in told["names"]}
    return Compared(
        worker=worker,
        batches=number,
        engine_blocks=len(held),
        confirmed_blocks=told["blocks"],
        missing=len(held - names),
        too_many=len(names - held),
        seconds=time.monotonic() - began,
    )


async def confirmed(router: Router, worker: str) -> dict[str, Any]:
    """What the router's index has of a worker."""
    reply = await router.get(f"/warmroute/v1/blocks?worker={quote(worker, safe='')}")
    assert reply.status == 200, reply.body
    told: dict[str, Any] = reply.json()
    return told
