"""Sends a request to its worker and streams the reply; once more to another where the first gave nothing."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from warmroute.errors import (
    StreamInterrupted,
    WarmrouteError,
    WorkerRefused,
    WorkerReply,
    WorkerTimeout,
    WorkerUnreachable,
)
from warmroute.native import PROXY_OPTIONS, Generation, RetryBudget
from warmroute.rpc.calls import Context
from warmroute.rpc.connections import Connections
from warmroute.rpc.stats import Stats

# Of a worker's reply that is no stream so much is read for its message.
_ERROR_BYTES = 64 << 10
_MESSAGE_CHARS = 512
_READ_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamOptions:
    """How long workers may take, and how often a request may go to another: as those of the HTTP proxy."""

    connect_timeout_ms: int
    request_timeout_ms: int
    silence_timeout_ms: int
    worker_idle_ms: int
    retries: bool
    retry_share: float
    retry_floor: float

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "UpstreamOptions":
        """Take them out of the options of the proxy; those that are left out have the proxy's defaults."""
        known: dict[str, Any] = {option.name: option.default for option in PROXY_OPTIONS} | dict(values)
        return cls(**{name: known[name] for name in cls.__slots__})

    def retry_budget(self) -> RetryBudget:
        """A budget with these bounds, for a server that shares none; raises `ConfigError`."""
        return RetryBudget(retry_share=self.retry_share, retry_floor=self.retry_floor)


class _Failed(Exception):
    """A worker gave nothing that the caller has seen: another one may be tried."""

    def __init__(self, error: WarmrouteError, outcome: str, *, free: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.outcome = outcome
        self.free = free


class Upstream:
    """Sends the requests of `Generate` to their workers."""

    def __init__(self, options: UpstreamOptions, stats: Stats, worker_key: str | None = None) -> None:
        """Take the options, where is counted, and the key that workers ask for."""
        self._options = options
        self._headers = {"Content-Type": "application/json"}
        if worker_key is not None:
            self._headers["Authorization"] = f"Bearer {worker_key}"
        self._stats = stats
        self._connections = Connections(options.worker_idle_ms / 1000)

    async def close(self) -> None:
        """Close what is open."""
        await self._connections.close()

    async def generate(self, generation: Generation, context: Context) -> None:
        """Choose a worker, send it the request, and write its reply to the call."""
        try:
            generation.book()
            try:
                await self._attempt(generation, context)
            except _Failed as failed:
                if not self._book_another(generation, failed):
                    raise
                self._stats.retries += 1
                await self._attempt(generation, context)
        except _Failed as failed:
            generation.close(failed.outcome)  # type: ignore[arg-type]
            raise failed.error from None
        except WarmrouteError:
            generation.close("failed")
            raise
        finally:
            # What is open here was left by its caller.
            generation.close("cancelled")

    def _book_another(self, generation: Generation, failed: _Failed) -> bool:
        if not self._options.retries:
            return False
        another = generation.book_another(failed.outcome, free=failed.free)  # type: ignore[arg-type]
        self._stats.retries_denied += another == "denied"
        return another == "booked"

    async def _attempt(self, generation: Generation, context: Context) -> None:
        worker = generation.worker
        try:
            response = await self._send(generation)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            why = getattr(error, "strerror", None) or error
            unreachable = WorkerUnreachable(f"worker {worker!r} cannot be reached: {why}")
            raise _Failed(unreachable, "unreachable", free=True) from None
        except TimeoutError:
            raise WorkerTimeout(f"worker {worker!r} began no reply for longer than it may") from None
        except (aiohttp.ClientError, OSError, ValueError):
            raise _Failed(_unreachable(worker), "unreachable") from None
        try:
            if response.status != 200:
                await _refused(worker, response)
            if response.content_type != "text/event-stream":
                raise WorkerReply(
                    f"worker {worker!r} answers with {response.content_type}, which is no stream"
                )
            await self._stream(generation, response, context)
        finally:
            # In the middle of a reply: the engine aborts, since its client is gone. At its end: nothing.
            response.close()

    async def _send(self, generation: Generation) -> aiohttp.ClientResponse:
        options = self._options
        headers = {**self._headers, "X-Request-Id": generation.request_id}
        if generation.dp_rank is not None:
            headers["X-data-parallel-rank"] = str(generation.dp_rank)
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=options.connect_timeout_ms / 1000,
            sock_read=options.silence_timeout_ms / 1000 or None,
        )
        # The call's own deadline needs nothing here: gRPC cancels the call when it passes.
        async with asyncio.timeout(options.request_timeout_ms / 1000 or None):
            return await self._connections.post(generation.url, generation.body, headers, timeout)

    async def _stream(
        self, generation: Generation, response: aiohttp.ClientResponse, context: Context
    ) -> None:
        worker, began, stats = generation.worker, False, self._stats
        while True:
            data = await _read(worker, response)
            if not data and not began:
                raise _Failed(_unreachable(worker), "unreachable")
            if not data:
                raise _interrupted(worker, "closed the connection")
            if not began and (routed := generation.routed()) is not None:
                began = True
                await context.write(routed)
            messages, complete, broken = generation.feed(data)
            for message in messages:
                await context.write(message)
            stats.chunks += len(messages)
            if broken is not None:
                raise _interrupted(worker, f"failed ({broken})")
            if complete:
                await self._connections.finish(response)
                return


async def _read(worker: str, response: aiohttp.ClientResponse) -> bytes:
    """The next bytes; none at the end, and where the connection breaks."""
    try:
        return await response.content.read(_READ_BYTES)
    except TimeoutError:
        raise WorkerTimeout(f"worker {worker!r} fell silent for longer than it may") from None
    except (aiohttp.ClientError, OSError):
        return b""


async def _refused(worker: str, response: aiohttp.ClientResponse) -> None:
    """Raise what a reply without a stream is to the caller."""
    status = response.status
    message = f"worker {worker!r} answers {status}: {_message(await _head(response))}"
    after = _retry_after(response)
    if status == 502 or (status == 503 and after is None):
        raise _Failed(WorkerReply(message, status), "failed")
    if 400 <= status < 500 or status == 503:
        raise WorkerRefused(message, status, after)
    raise WorkerReply(message, status)


async def _head(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.content.read(_ERROR_BYTES)
    except (aiohttp.ClientError, OSError, TimeoutError):
        return b""


def _message(body: bytes) -> str:
    """What a worker says, out of OpenAI's or FastAPI's shape of an error; never its whole reply."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        error = document.get("error")
        inner = error if isinstance(error, dict) else document
        for text in (inner.get("message"), document.get("detail"), error):
            if isinstance(text, str):
                return text[:_MESSAGE_CHARS]
    return "it does not say why"


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _unreachable(worker: str) -> WorkerUnreachable:
    return WorkerUnreachable(f"worker {worker!r} closed the connection before its reply")


def _interrupted(worker: str, did: str) -> StreamInterrupted:
    return StreamInterrupted(
        f"worker {worker!r} {did} in the middle of its reply: it is not complete, send the request again"
    )
