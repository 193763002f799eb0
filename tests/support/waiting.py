"""Waiting for what another process does, where nothing announces it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


async def until(holds: Callable[[], Awaitable[bool]], what: str, seconds: float = 20.0) -> None:
    """Asks every 20 ms until the condition holds; fails with `what` after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if await holds():
                    return
                await asyncio.sleep(0.02)
    except TimeoutError as error:
        raise AssertionError(f"not after {seconds} s: {what}") from error


def wait_until(holds: Callable[[], bool], what: str = "the condition holds", seconds: float = 20.0) -> None:
    """As `until`, in a test without a loop: asks every 5 ms."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not after {seconds} s: {what}")
        time.sleep(0.005)
