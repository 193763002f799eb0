"""Puts the parts together and runs them until a signal."""

import asyncio
import signal
from functools import partial
from typing import Any

import uvloop

from warmroute.config import Config, FleetOptions, ListenOptions, PromptOptions
from warmroute.errors import ConfigError
from warmroute.fleet import Fleet, WorkerClient
from warmroute.logs import get
from warmroute.metrics import Metrics, Snapshot
from warmroute.native import Prompter, Proxy, Router, __version__
from warmroute.server.control import Control
from warmroute.server.explain import Explain

log = get("server")


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status. Raises `ConfigError` where it cannot start."""
    if not config.workers:
        raise ConfigError("fleet.worker", [], "at least one worker: --worker URL, or [[worker]] in the file")
    uvloop.run(_serve(config))
    return 0


async def _serve(config: Config) -> None:
    listen = config.view("listen", ListenOptions)
    options = config.view("fleet", FleetOptions)
    router = Router(**config.section("router"))
    prompter = _prompter(config.view("prompt", PromptOptions))
    signals = _Signals()
    async with WorkerClient(options.probe_timeout_ms / 1000, options.probe_concurrency) as client:
        fleet = Fleet(router, client, options, block_size=router.block_size)
        server = _Server(router, prompter, fleet, listen, config.section("proxy"))
        port = server.proxy.start()
        log.info("listening", host=listen.host, port=port, workers=len(config.workers), policy=router.policy)
        try:
            for worker in config.workers:
                fleet.add(worker)
            await signals.first.wait()
            await server.drain(listen.drain_timeout_ms / 1000, signals.second)
        finally:
            await fleet.close()
            server.proxy.stop()
    log.info("ended")


def _prompter(options: PromptOptions) -> Prompter:
    prompter = Prompter(
        options.tokenizer,
        chat_template=options.chat_template,
        chat_template_content_format=options.chat_template_content_format,
    )
    if not prompter.has_tokenizer:
        log.warning("no tokenizer: prefixes are matched as text, affinity is approximate (set --tokenizer)")
    elif not prompter.has_chat_template:
        log.warning("the tokenizer has no chat template: chats are matched as text (set --chat-template)")
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
        self, router: Router, prompter: Prompter, fleet: Fleet, listen: ListenOptions, proxy: dict[str, Any]
    ) -> None:
        self._router = router
        self._approximate = not prompter.has_chat_template
        explain = Explain(router.explain, partial(router.explain_body, prompter))
        self._control = Control(router, fleet, Metrics(self._snapshot), explain)
        self.proxy = Proxy(
            router, prompter, host=listen.host, port=listen.port, control=self._control, **proxy
        )

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            router=self._router.stats(),
            proxy=self.proxy.stats(),
            version=__version__,
            approximate=self._approximate,
            draining=self._control.draining,
        )

    async def drain(self, timeout_s: float, cut: asyncio.Event) -> None:
        """Finish what runs, for a time at most, unless it is cut short."""
        self._control.draining = True
        log.info("draining", timeout_s=timeout_s)
        drained = asyncio.create_task(asyncio.to_thread(self.proxy.drain, timeout_s))
        stopped = asyncio.create_task(cut.wait())
        await asyncio.wait({drained, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not drained.done():
            log.warning("ending at once: requests are cut off")
            self.proxy.stop()
        stopped.cancel()
        if not await drained:
            log.warning("not everything had ended in time")
