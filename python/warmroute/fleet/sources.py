"""Where a worker's KV events come from: what is configured, or what its `/kv_event_sources` says."""

import json
from typing import Any
from urllib.parse import urlsplit

from warmroute.config import WorkerOptions
from warmroute.fleet.events import Source

TEXT_LIMIT = 512
# Addresses that a publisher binds, and under which nobody reaches it.
_ANY = ("*", "0.0.0.0", "::", "[::]")  # noqa: S104 - recognised, not bound


def configured(worker: WorkerOptions) -> Source | None:
    """The source that a `[[worker]]` entry states."""
    if not worker.kv_events_endpoint:
        return None
    return Source(
        worker.kv_events_endpoint,
        worker.kv_events_replay_endpoint,
        worker.kv_events_topic or "",
        bind="*" in worker.kv_events_endpoint,
    )


def read_sources(text: str, url: str) -> dict[int, Source]:
    """Read `/kv_event_sources` of the worker at `url`, by data-parallel rank; raise `ValueError` for no JSON.

    What is not a source that can be connected to is left out: a publisher that connects has to be configured.
    """
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("/kv_event_sources is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("/kv_event_sources is not an object")
    host = urlsplit(url).hostname or ""
    sources = {}
    for rank, entry in document.items():
        if not rank.isascii() or not rank.isdigit() or len(rank) > 5 or not isinstance(entry, dict):
            continue
        endpoint = _reachable(entry.get("endpoint"), host, binds=False)
        if endpoint:
            # vLLM binds this one whatever it looks like.
            replay = _reachable(entry.get("replay_endpoint"), host, binds=True)
            topic = entry.get("topic")
            sources[int(rank)] = Source(endpoint, replay, topic if isinstance(topic, str) else "")
    return sources


def _reachable(endpoint: Any, host: str, *, binds: bool) -> str | None:
    """An endpoint as it is reached from here; nothing for one that is not bound by the worker.

    A publisher binds an address only where it stands for any, unless it `binds` always.
    """
    if not isinstance(endpoint, str) or not 0 < len(endpoint) <= TEXT_LIMIT:
        return None
    scheme, separator, address = endpoint.partition("://")
    if not separator:
        return None
    if scheme != "tcp":
        return endpoint if scheme == "ipc" else None
    name, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return None
    if name in _ANY:
        return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"
    return endpoint if binds else None
