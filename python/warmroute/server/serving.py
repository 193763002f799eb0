"""What answers requests: the data plane, the control paths behind it, and the gRPC endpoint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warmroute.config import Config, FleetOptions, ListenOptions
from warmroute.fleet.discovery import Standing
from warmroute.logs import get
from warmroute.metrics import Metrics, Snapshot
from warmroute.native import Prompter, Proxy, Router, __version__
from warmroute.server.admin import Admin, Guard
from warmroute.server.checks import Checks
from warmroute.server.control import Control
from warmroute.server.endpoint import endpoint, stats_of
from warmroute.server.explain import Explain
from warmroute.server.parts import Parts
from warmroute.server.rungs import Rungs
from warmroute.server.sources import admin_key
from warmroute.server.watched import watched
from warmroute.tasks import Tasks

if TYPE_CHECKING:
    from warmroute.rpc import Server

log = get("server")


class Serving:
    """The data plane with the control paths behind it, and the gRPC endpoint beside it."""

    def __init__(
        self,
        config: Config,
        router: Router,
        prompter: Prompter,
        parts: Parts,
        tasks: Tasks,
        *,
        standings: Mapping[str, Standing],
    ) -> None:
        """Take what is configured, what decides, what the prompts are read by, the fleet's side, what runs
        the tasks, and how the sources of workers fare. Raises `ConfigError`.
        """
        self._config = config
        self._router = router
        self._prompter = prompter
        self._parts = parts
        self._tasks = tasks
        self._standings = standings
        self._grpc: Server | None = None
        self.checks = Checks(prompter)
        listen, options = config.view("listen", ListenOptions), config.section("proxy")
        self._rungs = Rungs(prompter, parts.fleet, parts.trust, options["worker_tokenize"])
        guard = Guard(admin_key(listen), listen.host)
        self._control = Control(
            router,
            parts.fleet,
            parts.trust,
            Metrics(self._snapshot),
            Explain(router.explain, self._explain_body),
            admin=Admin(parts.operator, asyncio.get_running_loop(), guard),
            warming=self._warming(),
            confirmed=parts.follower.confirmed,
        )
        self.proxy = Proxy(
            router, prompter, host=listen.host, port=listen.port, control=self._control, **options
        )

    async def start_grpc(self) -> None:
        """Serve gRPC, too, where a port is set."""
        self._grpc = endpoint(
            self._config,
            self._router,
            self._prompter,
            self._parts.operator,
            retry_budget=self.proxy.retry_budget,
            is_ready=lambda: not self._control.unready(),
            tasks=self._tasks,
        )
        if self._grpc is not None:
            await self._grpc.start()

    async def stop(self) -> None:
        """End at once."""
        if self._grpc is not None:
            await self._grpc.stop()
        self.proxy.stop()

    def _explain_body(self, endpoint: str, body: bytes) -> Any:
        # As a request of this body is routed, as far as that can be said without asking a worker.
        told = self.proxy.worker_tokens(endpoint, body)
        return self._router.explain_body(self._prompter, endpoint, body, told)

    def _warming(self) -> Callable[[], list[str]]:
        """What says which workers' events are waited for before the router calls itself ready."""
        until = time.monotonic() + self._config.view("fleet", FleetOptions).warm_timeout_ms / 1000
        return lambda: self._parts.follower.catching_up() if time.monotonic() < until else []

    def _snapshot(self) -> Snapshot:
        models = self._rungs.models()
        approximate = any(each.rung == "text" and each.prompts == "chats" for each in models)
        return Snapshot(
            router=self._router.stats(),
            proxy=self.proxy.stats(),
            version=__version__,
            approximate=approximate or not self._prompter.has_tokenizer,
            draining=self._control.draining,
            models=models,
            checks=self.checks.read(),
            seen=self._prompter.cache_stats(),
            events=self._parts.follower.stats(),
            fleet=watched(self._parts.fleet, self._parts.scraper),
            grpc=stats_of(self._grpc),
            sources={name: standing.document() for name, standing in self._standings.items()},
            tasks=self._tasks.failures(),
        )

    async def drain(self, timeout_s: float, cut: asyncio.Event) -> None:
        """Finish what runs, for a time at most, unless it is cut short."""
        self._control.draining = True
        log.info("draining", timeout_s=timeout_s)
        drained = asyncio.create_task(self._drain(timeout_s))
        stopped = asyncio.create_task(cut.wait())
        await asyncio.wait({drained, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            log.warning("ending at once: requests are cut off")
            await self.stop()
        stopped.cancel()
        if not await drained:
            log.warning("not everything had ended in time")

    async def _drain(self, timeout_s: float) -> bool:
        """Finish what runs on both ways in; says whether everything had ended in time."""
        calls = [asyncio.to_thread(self.proxy.drain, timeout_s)]
        if self._grpc is not None:
            calls.append(self._grpc.drain(timeout_s))
        return all(await asyncio.gather(*calls))
