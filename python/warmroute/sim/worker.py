"""`warmroute sim-worker`: one simulated worker until a signal ends it."""

import contextlib
import signal
import threading
from typing import Any

import zmq

from warmroute.config import SimWorkerOptions
from warmroute.errors import ConfigError
from warmroute.logs import get
from warmroute.native import SimServer
from warmroute.sim import TOKENIZER
from warmroute.sim.publisher import Publisher

log = get("sim")


def run(options: SimWorkerOptions, engine: dict[str, Any]) -> int:
    """Serve until SIGTERM or SIGINT; `engine` are the options of the engine model."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with contextlib.ExitStack() as stack:
        server = SimServer(
            host=options.host,
            port=options.port,
            model=options.model,
            tokenizer=options.tokenizer or str(TOKENIZER),
            events=_events(options),
            **engine,
        )
        stack.callback(server.stop)
        if options.kv_events_endpoint is not None:
            stack.enter_context(_publisher(server, options, options.kv_events_endpoint))
        log.info("listening", host=options.host, port=server.port, model=options.model)
        stop.wait()
        log.info("ending")
    return 0


def _events(options: SimWorkerOptions) -> tuple[str, str | None, str] | None:
    if options.kv_events_endpoint is None:
        return None
    return options.kv_events_endpoint, options.kv_events_replay_endpoint, options.kv_events_topic


def _publisher(server: SimServer, options: SimWorkerOptions, endpoint: str) -> Publisher:
    try:
        return Publisher(server, endpoint, options.kv_events_replay_endpoint, options.kv_events_topic)
    except zmq.ZMQError as error:
        named = f"{endpoint} or {options.kv_events_replay_endpoint}"
        raise ConfigError("kv_events_endpoint", named, f"a ZMQ endpoint that can be had ({error})") from None
