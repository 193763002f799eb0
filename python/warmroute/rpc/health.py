"""`grpc.health.v1`: serving where the router is ready, as `/readyz` says it."""

import asyncio
from collections.abc import Callable, Sequence

from grpc_health.v1 import health, health_pb2

# How often readiness is looked at; it changes when workers come and go.
_LOOK_S = 0.25

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Health:
    """Keeps what health checks are answered in step with the router."""

    def __init__(self, services: Sequence[str], is_ready: Callable[[], bool]) -> None:
        """Take the services that are served, and what says whether the router is ready."""
        self.servicer = health.aio.HealthServicer()
        self._services = ("", *services)
        self._is_ready = is_ready
        self._told: bool | None = None
        self._ended = False

    async def watch(self) -> None:
        """Look for as long as the task runs."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Look once."""
        await self._tell(self._is_ready() and not self._ended)

    async def end(self) -> None:
        """Say that nothing new is taken, for good."""
        self._ended = True
        await self._tell(False)

    async def _tell(self, ready: bool) -> None:
        if ready is self._told:
            return
        self._told = ready
        for service in self._services:
            await self.servicer.set(service, _SERVING if ready else _NOT_SERVING)
