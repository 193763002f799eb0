"""Workers as people write them: `URL`, `NAME=URL`, or a table of terms."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from warmroute.config.front import WorkerOptions
from warmroute.config.option import options_of
from warmroute.config.schema import unknown
from warmroute.errors import ConfigError

WORKER_TABLE = "worker"

URL_ALLOWED = "http://HOST[:PORT] without a user, a path, a query or a fragment"
TEXT_ALLOWED = "texts without control characters"
NAME_ALLOWED = "1 to 64 letters, digits and . _ - : @ [ ]"

# Names become metric labels and header values: short, and without anything that needs quoting.
_NAME = re.compile(r"[A-Za-z0-9._:@\[\]-]{1,64}")


def worker_of(text: str, source: str, **rest: Any) -> WorkerOptions:
    """A worker from `URL` or `NAME=URL`, with what else is known of it, or `ConfigError`."""
    name, equals, url = text.partition("=")
    if not equals or "://" in name:
        name, url = "", text
    url = _checked_url(url.strip(), source)
    name = rest.pop("name", None) or name.strip() or urlsplit(url).netloc
    if not _NAME.fullmatch(name):
        raise ConfigError("worker.name", name, NAME_ALLOWED, source)
    for key, value in rest.items():
        texts = value if isinstance(value, tuple) else (value,)
        # What gets in here gets into logs and messages; JSON can say half a character, UTF-8 cannot.
        if not all(each.isprintable() for each in texts if isinstance(each, str)):
            raise ConfigError(f"worker.{key}", brief(value), TEXT_ALLOWED, source)
    return WorkerOptions(url=url, name=name, **rest)


def worker_from(entry: Mapping[str, Any], key: str, source: str) -> WorkerOptions:
    """A worker from a table of terms, or `ConfigError`; `key` names the table in messages."""
    table = {option.name: option for option in options_of(WorkerOptions)}
    values = {}
    for name, value in entry.items():
        if name not in table:
            raise ConfigError(f"{key}.{name}", brief(value), unknown(name, table), source)
        values[name] = table[name].check(value, f"{key}.{name}", source)
    return worker_of(values.pop("url", ""), source, **values)


def workers_from(entries: Any, source: str) -> tuple[WorkerOptions, ...]:
    """Workers from the `[[worker]]` tables of a file, or `ConfigError`."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(WORKER_TABLE, brief(entries), "tables that start with [[worker]]", source)
    return tuple(
        worker_from(entry, f"{WORKER_TABLE}[{number}]", source) for number, entry in enumerate(entries)
    )


def names_differ(workers: Sequence[WorkerOptions], source: str | None = None) -> None:
    """Raise `ConfigError` where two workers have one name."""
    seen: set[str | None] = set()
    for worker in workers:
        if worker.name in seen:
            raise ConfigError("worker.name", worker.name, "a name that no other worker has", source)
        seen.add(worker.name)


def brief(value: Any) -> Any:
    """A value short enough for a message."""
    text = repr(value)
    return value if len(text) <= 80 else text[:77] + "..."


def split_port(text: str, default: int | None) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[IPv6]:PORT`; raise `ValueError` where a port lacks or is none."""
    parts = urlsplit(f"//{text}")
    port = parts.port if parts.port is not None else default
    if not parts.hostname or port is None or parts.netloc != text or "@" in text:
        raise ValueError(text)
    return parts.hostname, port


def _checked_url(url: str, source: str) -> str:
    if "@" in url:
        # The value stays out of the message: it holds a credential.
        raise ConfigError("worker.url", "(hidden)", URL_ALLOWED, source)
    # Before it is parted, which passes over line ends.
    if " " in url or not url.isprintable():
        raise ConfigError("worker.url", brief(url), URL_ALLOWED, source)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError("worker.url", url, URL_ALLOWED, source) from None
    extra = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme != "http" or not parts.hostname or extra or port == 0:
        raise ConfigError("worker.url", url, URL_ALLOWED, source)
    return f"{parts.scheme}://{parts.netloc}"
