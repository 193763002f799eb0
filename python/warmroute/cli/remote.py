"""Asks a running router, for the commands that look at it or change its fleet."""

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warmroute.config import Schema, Section
from warmroute.config.option import Option
from warmroute.errors import ConfigError, WarmrouteError

DEFAULT = "http://127.0.0.1:8080"
LIMIT_BYTES = 64 << 20

OPTIONS = Schema(
    [
        Section(
            "router",
            "which router is asked",
            (
                Option("router", "str", DEFAULT, "Where the router listens."),
                Option(
                    "admin_key_file",
                    "str",
                    None,
                    "A file with the router's admin key, where it has one.",
                ),
                Option("timeout_ms", "int", 10_000, "How long the router may take.", 1, 3_600_000, unit="ms"),
            ),
        )
    ]
)


class RouterUnreachable(WarmrouteError):
    """The router did not answer."""


class Refused(WarmrouteError):
    """The router answered with an error."""


class Remote:
    """A running router."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Take the values of `OPTIONS`."""
        self._url = _checked(values["router"])
        self._timeout_s = values["timeout_ms"] / 1000
        self._key_file: str | None = values["admin_key_file"]
        # A proxy is for the world outside; routers are inside.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        """One request, and the document of its reply; raises where there is none."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._key_file is not None:
            headers["Authorization"] = f"Bearer {_key(self._key_file)}"
        request = urllib.request.Request(self._url + path, body, headers, method=method)  # noqa: S310 - checked
        try:
            with self._opener.open(request, timeout=self._timeout_s) as reply:
                return json.loads(reply.read(LIMIT_BYTES))
        except urllib.error.HTTPError as error:
            raise Refused(_said(error)) from None
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "reason", error)
            raise RouterUnreachable(
                f"no router answers at {self._url} ({reason}): is it running, and is --router right?"
            ) from None
        except ValueError:
            raise Refused(f"{self._url} is no warmroute router: its reply is not JSON") from None


def path_of(name: str, action: str = "") -> str:
    """The path of a worker."""
    return f"/warmroute/v1/workers/{urllib.parse.quote(name, safe='')}" + (f"/{action}" if action else "")


def _checked(url: str) -> str:
    parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in url:
        raise ConfigError("router", url, "http://HOST:PORT", "--router")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _key(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("admin_key_file", path, f"a file that can be read ({error})") from None


def _said(error: urllib.error.HTTPError) -> str:
    try:
        message = json.loads(error.read(LIMIT_BYTES))["error"]["message"]
    except (ValueError, LookupError, TypeError, OSError):
        message = f"it answers {error.code} without saying why"
    hint = {
        401: " (--admin-key-file FILE)",
        404: " (see warmroute workers list)",
    }.get(error.code, "")
    return f"the router refuses: {message}{hint}"


def environment() -> Mapping[str, str]:
    """What these commands take of the environment: the key, which the router takes from there, too."""
    name = "WARMROUTE_ADMIN_KEY_FILE"
    return {name: os.environ[name]} if name in os.environ else {}
