"""The router as a process, in front of scripted workers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.support.fake_worker import FakeWorker
from tests.support.process import Router

# Looks at workers are quick here, so that a test need not wait for the default of two seconds.
QUICK = ("--probe-interval-ms", "50")

StartRouter = Callable[..., contextlib.AbstractAsyncContextManager[Router]]


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as one:
        yield one


@pytest.fixture
async def pair() -> AsyncIterator[list[FakeWorker]]:
    async with FakeWorker() as first, FakeWorker() as second:
        yield [first, second]


@pytest.fixture
def start_router(tmp_path: Path) -> StartRouter:
    """`async with start_router(worker, ..., flags=[...]) as router`."""

    def start(*workers: FakeWorker, flags: tuple[str, ...] = (), ready: bool = True) -> Router:
        number = len(list(tmp_path.glob("router-*.log")))
        log = tmp_path / f"router-{number}.log"
        return Router(log, [worker.url for worker in workers], *QUICK, *flags, ready=ready)

    return start


@pytest.fixture
async def router(worker: FakeWorker, start_router: StartRouter) -> AsyncIterator[Router]:
    """A router in front of `worker`."""
    async with start_router(worker) as one:
        yield one


@pytest.fixture
async def pair_router(pair: list[FakeWorker], start_router: StartRouter) -> AsyncIterator[Router]:
    """A router in front of `pair`, once both are taken in."""
    async with start_router(*pair) as one:
        await one.sees_ready(2)
        yield one
