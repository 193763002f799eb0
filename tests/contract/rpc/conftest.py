"""A router with a gRPC endpoint in this process, and stubs for it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pytest

import warmroute
import warmroute.rpc
from tests.support import stubs
from warmroute.config import GrpcOptions


@dataclass
class Endpoint:
    """A router, and how to call it."""

    router: warmroute.Router
    server: warmroute.rpc.Server
    channel: grpc.aio.Channel
    stub: Any = field(init=False)
    fleet: Any = field(init=False)

    def __post_init__(self) -> None:
        self.stub = stubs.router(self.channel)
        self.fleet = stubs.fleet(self.channel)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.server.port

    @property
    def open(self) -> int:
        """Reservations that are open in the core."""
        count: int = self.router.stats()["open"]
        return count


StartEndpoint = Callable[..., contextlib.AbstractAsyncContextManager[Endpoint]]


@contextlib.asynccontextmanager
async def _start(router: warmroute.Router | None = None, **terms: Any) -> AsyncIterator[Endpoint]:
    if router is None:
        router = warmroute.Router(block_size=16)
        router.add_worker("w1", url="http://10.0.0.1:8000", kv_blocks=26_000)
        router.add_worker("w2", url="http://10.0.0.2:8000", kv_blocks=26_000, dp_rank=3)
    names = {name: value for name, value in terms.items() if name.startswith("grpc_")}
    rest = {name: value for name, value in terms.items() if name not in names}
    async with (
        warmroute.rpc.serve(router, options=GrpcOptions(**names), drain_s=0.2, **rest) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        yield Endpoint(router, server, channel)


@pytest.fixture
def start_endpoint() -> StartEndpoint:
    """`async with start_endpoint(router, grpc_lease_time_ms=100) as endpoint`."""
    return _start


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """Two workers behind an endpoint."""
    async with _start() as one:
        yield one
