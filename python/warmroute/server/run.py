"""Puts the parts together and runs them until a signal."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import uvloop

from warmroute.config import (
    Config,
    FleetOptions,
    ListenOptions,
    PromptOptions,
    resolve_tokenizer,
    tokenizers_of,
)
from warmroute.config.tokenizers import KEY
from warmroute.errors import ConfigError
from warmroute.fleet import (
    Events,
    Fleet,
    Follower,
    Operator,
    Reconciler,
    Scraper,
    Trust,
    Verifier,
    WorkerClient,
)
from warmroute.fleet.discovery import Standing
from warmroute.fleet.discovery.listing import CONFIG, Listing
from warmroute.logs import get
from warmroute.metrics import Metrics, Snapshot
from warmroute.native import Mirror, Prompter, Proxy, Router, __version__
from warmroute.server.admin import Admin, Guard
from warmroute.server.checks import Checks
from warmroute.server.control import Control
from warmroute.server.endpoint import endpoint, stats_of
from warmroute.server.explain import Explain
from warmroute.server.rungs import Rungs
from warmroute.server.sources import admin_key, check_workers, sources_of, worker_key
from warmroute.server.truth import Truth
from warmroute.server.watched import watched

if TYPE_CHECKING:
    from warmroute.rpc import Server

log = get("server")


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status. Raises `ConfigError` where it cannot start."""
    check_workers(config)
    uvloop.run(_serve(config))
    return 0


async def _serve(config: Config) -> None:
    listen = config.view("listen", ListenOptions)
    options = config.view("fleet", FleetOptions)
    router = Router(**config.section("router"))
    prompts = config.view("prompt", PromptOptions)
    # It reads files and encodes for seconds, and may fetch them.
    prompter = await asyncio.to_thread(_prompter, prompts)
    signals = _Signals()
    key = worker_key(options)
    async with WorkerClient(options.probe_timeout_ms / 1000, options.probe_concurrency, key) as client:
        trust = Trust(prompter)
        verifier = Verifier(prompter, client, prompts.verify_timeout_ms / 1000)
        verifies = prompter.has_tokenizer and prompts.verify_timeout_ms > 0
        events = Events(options.kv_replay_timeout_ms / 1000)
        follower = Follower(events, client, lambda name: Mirror(router, name))
        scraper = Scraper(router, client, options)
        fleet = Fleet(
            router,
            client,
            options,
            block_size=router.block_size,
            verifier=verifier if verifies else None,
            trust=trust,
            follower=follower if options.kv_events == "auto" else None,
            scraper=scraper if options.scrape_interval_ms > 0 else None,
        )
        reconciler = Reconciler(fleet, options.worker_drain_timeout_ms / 1000)
        operator = Operator(fleet, reconciler, router.stats)
        sources = sources_of(options, fleet.is_up_at)
        server = _Server(
            router,
            prompter,
            fleet,
            trust,
            follower=follower,
            config=config,
            admin=Admin(operator, asyncio.get_running_loop(), Guard(admin_key(listen), listen.host)),
            scraper=scraper,
            standings={source.name: source.standing for source in sources},
        )
        watching = [
            asyncio.create_task(server.checks.watch()),
            asyncio.create_task(Truth(lambda: router.stats()["workers"], follower.stats).watch()),
        ]
        port = server.proxy.start()
        log.info("listening", host=listen.host, port=port, workers=len(config.workers), policy=router.policy)
        try:
            await server.start_grpc(operator)
            reconciler.offer(CONFIG, [Listing(worker) for worker in config.workers])
            for source in sources:
                reconciler.run(source)
            await signals.first.wait()
            await server.drain(listen.drain_timeout_ms / 1000, signals.second)
        finally:
            for task in watching:
                task.cancel()
            # First whoever still asks something of the fleet.
            await server.stop()
            await reconciler.close()
            await scraper.close()
            await fleet.close()
            events.close()
    log.info("ended")


def _prompter(options: PromptOptions) -> Prompter:
    default, models = tokenizers_of(options.tokenizer)
    if options.chat_template and default is None:
        allowed = "a file beside a tokenizer for every model (--tokenizer WHERE)"
        raise ConfigError("prompt.chat_template", options.chat_template, allowed)
    prompter = Prompter(
        resolve_tokenizer(default, KEY) if default else None,
        models=[(model, resolve_tokenizer(where, KEY)) for model, where in models.items()],
        chat_template=options.chat_template,
        chat_template_content_format=options.chat_template_content_format,
        check_every=options.token_check_every,
        prompt_cache_bytes=options.cache_bytes,
    )
    if not prompter.has_tokenizer:
        log.warning("no tokenizer: prefixes are matched as text, affinity is approximate (set --tokenizer)")
    elif default and not prompter.has_chat_template and not prompter.renders_itself(""):
        log.warning("the tokenizer has no chat template: chats are matched as text (set --chat-template)")
    for model in ("", *models):
        if name := prompter.renders_itself(model):
            log.warning(
                "workers render chats of this model by their own code: they are asked for tokens",
                model=model or "every other",
                known_as=name,
            )
        if reason := prompter.fallback_reason(model):
            log.warning(
                "the fast tokenizer is not used: encoding takes fifty times as long",
                model=model or "every other",
                reason=reason,
            )
    return prompter


class _Signals:
    """The first SIGTERM or SIGINT asks for a drain, the second for the end."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._came)

    def _came(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


class _Server:
    """The data plane with the control paths behind it."""

    def __init__(
        self,
        router: Router,
        prompter: Prompter,
        fleet: Fleet,
        trust: Trust,
        *,
        follower: Follower,
        config: Config,
        admin: Admin,
        scraper: Scraper,
        standings: Mapping[str, Standing],
    ) -> None:
        self._router = router
        self._standings = standings
        self._fleet, self._scraper = fleet, scraper
        self._follower = follower
        self._prompter = prompter
        self._config = config
        self._grpc: Server | None = None
        self.checks = Checks(prompter)
        listen, options = config.view("listen", ListenOptions), config.section("proxy")
        self._rungs = Rungs(prompter, fleet, trust, options["worker_tokenize"])
        explain = Explain(router.explain, self._explain_body)
        self._control = Control(
            router,
            fleet,
            trust,
            Metrics(self._snapshot),
            explain,
            admin=admin,
            warming=self._warming(),
            confirmed=follower.confirmed,
        )
        self.proxy = Proxy(
            router, prompter, host=listen.host, port=listen.port, control=self._control, **options
        )

    async def start_grpc(self, operator: Operator) -> None:
        """Serve gRPC, too, where a port is set."""
        self._grpc = endpoint(
            self._config,
            self._router,
            self._prompter,
            operator,
            retry_budget=self.proxy.retry_budget,
            is_ready=lambda: not self._control.unready(),
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
        return lambda: self._follower.catching_up() if time.monotonic() < until else []

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
            events=self._follower.stats(),
            fleet=watched(self._fleet, self._scraper),
            grpc=stats_of(self._grpc),
            sources={name: standing.document() for name, standing in self._standings.items()},
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
