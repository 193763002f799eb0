"""The admin API: workers are added, drained and removed while the router runs.

`POST /warmroute/v1/workers`, `POST /warmroute/v1/workers/NAME/drain`, `DELETE /warmroute/v1/workers/NAME`.
"""

import asyncio
import hmac
import ipaddress
import json
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar
from urllib.parse import unquote

from warmroute.config import WorkerOptions
from warmroute.config.worker import worker_from
from warmroute.errors import ConfigError, Forbidden, InvalidRequest, Unauthorized
from warmroute.fleet import WorkerEntry
from warmroute.server.replies import Reply, json_reply, worker_document

T = TypeVar("T")

PATH = "/warmroute/v1/workers"
# The loop answers within milliseconds; a control thread must not be held for ever where it does not.
LOOP_TIMEOUT_S = 10.0


class OperatorPort(Protocol):
    """What changes the fleet; see `warmroute.fleet.Operator`."""

    def add(self, worker: WorkerOptions) -> WorkerEntry:
        """Take a worker in."""

    def drain(self, name: str) -> WorkerEntry:
        """Let a worker finish what it has."""

    def remove(self, name: str) -> None:
        """Forget a worker."""


class Guard:
    """Who may change the fleet: whoever has the key, or whoever is on this machine where there is none."""

    def __init__(self, key: str | None, host: str) -> None:
        """Take the key, and the address that the router listens on."""
        self._key = key
        self._local = is_loopback(host)

    def check(self, headers: Mapping[str, str]) -> None:
        """Raise `Unauthorized` or `Forbidden` unless the request may pass."""
        if self._key is not None:
            kind, _, given = headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not hmac.compare_digest(
                given.strip().encode(), self._key.encode()
            ):
                raise Unauthorized(
                    "the admin key is missing or wrong: send it as `Authorization: Bearer KEY`"
                )
        elif not self._local:
            raise Forbidden(
                "the fleet cannot be changed here: the router listens on more than this machine and has no "
                "admin key (--admin-key-file FILE)"
            )
        elif "origin" in headers:
            # A browser on this machine speaks for whatever page it shows.
            raise Forbidden("requests of web pages are refused where there is no admin key")


class Admin:
    """Answers on the data plane's threads; changes are made on the fleet's loop."""

    def __init__(self, operator: OperatorPort, loop: asyncio.AbstractEventLoop, guard: Guard) -> None:
        """Take what changes the fleet, its loop, and who may."""
        self._operator = operator
        self._loop = loop
        self._guard = guard

    def __call__(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Answer a request with one of `methods_of` its path; raises the errors of the tree."""
        self._guard.check(headers)
        name = unquote(_parts(path)[0])
        if method == "DELETE":
            self._on_loop(lambda: self._operator.remove(name))
            return json_reply({"removed": name})
        if name:
            entry = self._on_loop(lambda: self._operator.drain(name))
            return json_reply({"worker": worker_document(entry, {})})
        worker = _worker(body)
        entry = self._on_loop(lambda: self._operator.add(worker))
        return json_reply({"worker": worker_document(entry, {})}, 201)

    def _on_loop(self, change: Callable[[], T]) -> T:
        async def make() -> T:
            return change()

        return asyncio.run_coroutine_threadsafe(make(), self._loop).result(LOOP_TIMEOUT_S)


def methods_of(path: str) -> tuple[str, ...]:
    """The methods that a path of the admin API takes; none for any other path."""
    if path == PATH:
        return ("POST",)
    if not path.startswith(PATH + "/"):
        return ()
    name, action = _parts(path)
    return {"": ("DELETE",), "drain": ("POST",)}.get(action, ()) if name else ()


def _parts(path: str) -> tuple[str, str]:
    """The name in a path, as it is encoded, and what is done with it; `/NAME/` does nothing."""
    name, slash, action = path.removeprefix(PATH).removeprefix("/").partition("/")
    return name, action or slash


def _worker(body: bytes) -> WorkerOptions:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidRequest('the body is not an object such as {"url": "http://10.0.0.1:8000"}')
    try:
        return worker_from(document, "worker", "the request")
    except ConfigError as error:
        raise InvalidRequest(str(error)) from None


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
