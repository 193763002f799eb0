"""Puts the parts together and runs them until a signal."""

import asyncio
import signal

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
from warmroute.fleet import WorkerClient
from warmroute.fleet.discovery.listing import CONFIG, Listing
from warmroute.logs import get
from warmroute.native import Prompter, Router
from warmroute.server.parts import parts_of
from warmroute.server.serving import Serving
from warmroute.server.sources import check_workers, sources_of, worker_key
from warmroute.server.truth import Truth
from warmroute.tasks import Tasks, stop

log = get("server")


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status. Raises `ConfigError` where it cannot start."""
    check_workers(config)
    uvloop.run(_serve(config))
    return 0


async def _serve(config: Config) -> None:
    listen, options = config.view("listen", ListenOptions), config.view("fleet", FleetOptions)
    router = Router(**config.section("router"))
    # It reads files and encodes for seconds, and may fetch them.
    prompter = await asyncio.to_thread(_prompter, config.view("prompt", PromptOptions))
    signals, tasks = _Signals(), Tasks()
    async with WorkerClient(options.probe_timeout_ms / 1000, worker_key(options)) as client:
        parts = parts_of(config, router, prompter, client, tasks)
        sources = sources_of(options, parts.fleet.is_up_at)
        standings = {source.name: source.standing for source in sources}
        serving = Serving(config, router, prompter, parts, tasks, standings=standings)
        port = serving.proxy.start()
        log.info("listening", host=listen.host, port=port, workers=len(config.workers), policy=router.policy)
        truth = Truth(lambda: router.stats()["workers"], parts.follower.stats)
        watching = [tasks.start("checks", serving.checks.watch), tasks.start("truth", truth.watch)]
        try:
            await serving.start_grpc()
            parts.reconciler.offer(CONFIG, [Listing(worker) for worker in config.workers])
            for source in sources:
                parts.reconciler.run(source)
            await signals.first.wait()
            await serving.drain(listen.drain_timeout_ms / 1000, signals.second)
        finally:
            await stop(watching)
            await serving.stop()
            await parts.close()
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
