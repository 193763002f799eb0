"""Workers as people write them: `URL` or `NAME=URL`."""

import re
from typing import Any
from urllib.parse import urlsplit

from warmroute.config.front import WorkerOptions
from warmroute.errors import ConfigError

URL_ALLOWED = "http://HOST[:PORT] without a user, a path, a query or a fragment"
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
    return WorkerOptions(url=url, name=name, **rest)


def _checked_url(url: str, source: str) -> str:
    if "@" in url:
        # The value stays out of the message: it holds a credential.
        raise ConfigError("worker.url", "(hidden)", URL_ALLOWED, source)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError("worker.url", url, URL_ALLOWED, source) from None
    extra = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme != "http" or not parts.hostname or extra or port == 0:
        raise ConfigError("worker.url", url, URL_ALLOWED, source)
    return f"{parts.scheme}://{parts.netloc}"
