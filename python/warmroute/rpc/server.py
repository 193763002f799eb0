"""The server: what listens, what is registered, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from warmroute.config import GrpcOptions
from warmroute.errors import ConfigError
from warmroute.logs import get
from warmroute.native import Prompter, RetryBudget, Router, RpcService
from warmroute.rpc import fleet as fleet_service
from warmroute.rpc import keys, tls
from warmroute.rpc import router as router_service
from warmroute.rpc.calls import Calls
from warmroute.rpc.fleet import FleetService, OperatorPort
from warmroute.rpc.health import Health
from warmroute.rpc.keys import Keys
from warmroute.rpc.router import RouterService
from warmroute.rpc.stats import Stats
from warmroute.rpc.tally import Tally
from warmroute.rpc.upstream import Upstream, UpstreamOptions
from warmroute.tasks import Tasks, stop

SERVICES = (router_service.SERVICE, fleet_service.SERVICE)

# How often reservations are looked through for those whose lease time ran out, in lease times.
_SWEEPS_PER_LEASE = 20
# How often it is said that some were.
_EXPIRED_EVERY_S = 30.0
# How long a drain waits for the answers of calls that have ended to be sent.
_LAST_ANSWERS_S = 0.5
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")

log = get("grpc")


class Server:
    """`warmroute.v1` over gRPC, in the loop that starts it."""

    def __init__(
        self,
        router: Router,
        prompter: Prompter,
        operator: OperatorPort,
        options: GrpcOptions,
        *,
        is_ready: Callable[[], bool],
        upstream: UpstreamOptions | None = None,
        retry_budget: RetryBudget | None = None,
        changers: Keys | None = None,
        worker_key: str | None = None,
        tasks: Tasks | None = None,
    ) -> None:
        """Take the router, what reads prompts, what changes the fleet, the options, and what `/readyz` says.

        `retry_budget` is what the other ways in to this router take their retries from; without it, those of
        `Generate` have one of their own, as `upstream` says.
        `changers` are the keys of those who may change the fleet, where these are not those who may call.
        `worker_key` is what the workers ask for: `Generate` sends it where callers are known by a key or a
        certificate, so that it opens the workers to nobody else. `tasks` runs what goes on beside the calls.
        """
        upstream = upstream or UpstreamOptions.of({})
        self._runner = tasks or Tasks()
        self._options = options
        self._stats = Stats()
        self._service = RpcService(
            router,
            prompter,
            retry_budget or upstream.retry_budget(),
            max_reservations=options.grpc_max_reservations,
            lease_time_s=options.grpc_lease_time_ms / 1000,
        )
        self._fleet = FleetService(operator)
        self._health = Health(SERVICES, is_ready)
        self._keys = keys.read(options.grpc_api_keys_file, options.grpc_api_keys_env)
        callers_are_known = bool(self._keys) or options.grpc_tls_client_ca is not None
        self._withholds_key = worker_key is not None and not callers_are_known
        self._upstream = Upstream(upstream, self._stats, worker_key if callers_are_known else None)
        self._router = RouterService(self._service, self._upstream, self._stats)
        self._changers = self._keys if changers is None else changers
        self._credentials = tls.credentials(options)
        self._server: grpc.aio.Server | None = None
        self.port = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Listen on `port`; raise `ConfigError` where that cannot be."""
        options = self._options
        server = grpc.aio.server(options=_channel_options(options))
        calls = Calls(self._keys, options.grpc_max_calls, self._stats)
        changes = Calls(self._changers, options.grpc_max_calls, self._stats)
        handlers = (self._router.handlers(calls), self._fleet.handlers(calls, changes))
        server.add_generic_rpc_handlers(handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._health.servicer, server)
        named = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
        reflection.enable_server_reflection((*SERVICES, named, reflection.SERVICE_NAME), server)
        self.port = self._listen(server)
        await self._health.look()
        await server.start()
        self._server = server
        self._tasks = [
            self._runner.start("grpc_health", self._health.watch),
            self._runner.start("grpc_leases", self._sweep),
        ]
        self._warn()
        log.info("listening", host=options.grpc_host, port=self.port, tls=self._credentials is not None)

    def stats(self) -> dict[str, Any]:
        """What was counted, and the state of the moment."""
        return {**self._stats.read(), "reservations": self._service.stats()}

    def failures(self) -> Mapping[str, int]:
        """How often what goes on beside the calls failed, by task."""
        return self._runner.failures()

    async def drain(self, timeout_s: float) -> bool:
        """Take nothing new, finish what runs, for a time at most; says whether everything had ended."""
        if self._server is None:
            return True
        await self._health.end()
        self._router.drain()
        self._fleet.drain()
        began = time.monotonic()
        # From here on new calls are refused. What watches health has no end of its own, and is cut off.
        stopping = asyncio.create_task(self._server.stop(timeout_s))
        idle = asyncio.create_task(self._stats.idle.wait())
        await asyncio.wait({stopping, idle}, return_when=asyncio.FIRST_COMPLETED)
        # When the time is over, calls are cut off, and then nothing is open either.
        drained = self._stats.idle.is_set() and time.monotonic() - began < timeout_s
        idle.cancel()
        if drained:
            # The last answers may still be on their way.
            await self._server.stop(_LAST_ANSWERS_S)
        await self.stop()
        await stopping
        return drained

    async def stop(self) -> None:
        """End at once: calls are cut off."""
        server, self._server = self._server, None
        await stop(self._tasks)
        self._tasks = []
        if server is not None:
            await server.stop(None)
        await self._upstream.close()

    def _listen(self, server: grpc.aio.Server) -> int:
        options = self._options
        host = f"[{options.grpc_host}]" if ":" in options.grpc_host else options.grpc_host
        address = f"{host}:{options.grpc_port or 0}"
        with contextlib.suppress(RuntimeError):
            if self._credentials is not None:
                port = server.add_secure_port(address, self._credentials)
            else:
                port = server.add_insecure_port(address)
            if port:
                return port
        raise ConfigError(
            "grpc.grpc_port", options.grpc_port, f"an address that can be listened on, not {address}"
        )

    async def _sweep(self) -> None:
        every = self._options.grpc_lease_time_ms / 1000 / _SWEEPS_PER_LEASE
        tally = Tally(_EXPIRED_EVERY_S)
        while True:
            await asyncio.sleep(min(every, 1.0))
            if expired := tally.add(self._service.expire(), time.monotonic()):
                log.warning("reservations were not reported within their lease time", reservations=expired)

    def _warn(self) -> None:
        if self._withholds_key:
            log.warning("Generate sends workers no key, since anyone may call: set --grpc-api-keys-file")
        if self._keys and self._credentials is None and self._options.grpc_host not in _LOOPBACK:
            log.warning("API keys are sent in clear text: set --grpc-tls-cert", host=self._options.grpc_host)


def _channel_options(options: GrpcOptions) -> list[tuple[str, int]]:
    keepalive = options.grpc_keepalive_ms
    return [
        ("grpc.max_receive_message_length", options.grpc_max_message_bytes),
        ("grpc.max_send_message_length", options.grpc_max_message_bytes),
        # Two servers on one port would share its calls, and not their reservations.
        ("grpc.so_reuseport", 0),
        # A client that is gone without a word is noticed, and the reservations of its streams with it.
        ("grpc.keepalive_time_ms", keepalive),
        ("grpc.keepalive_timeout_ms", options.grpc_keepalive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # Clients may ask as often as we do.
        ("grpc.http2.min_ping_interval_without_data_ms", keepalive // 2),
    ]
