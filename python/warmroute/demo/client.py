"""A client that is cheap enough to play a hundred of them: one connection, raw bytes."""

import asyncio
import re
from dataclasses import dataclass
from time import perf_counter
from typing import cast

_USAGE = re.compile(rb'"prompt_tokens":\s*(\d+).*?"cached_tokens":\s*(\d+)', re.DOTALL)
_REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: demo\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
# What stands between two chunks, which may be cut anywhere; the events themselves have no carriage return.
_FRAMING = re.compile(rb"\r\n[0-9a-fA-F]+\r\n")
_END = b"\r\n0\r\n\r\n"
# The usage and the end are within the last bytes of a stream.
_TAIL_BYTES = 4_096


class Failed(Exception):
    """A request that did not end well."""


@dataclass(slots=True)
class Turn:
    """One request: moments in seconds of `perf_counter`, and what the worker said of its prompt."""

    sent: float
    first: float = 0.0
    ended: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0


class Client(asyncio.Protocol):
    """One keep-alive connection that takes one streamed chat completion after the other."""

    def __init__(self, host: str, port: int) -> None:
        """Take the address of the router."""
        self._address = (host, port)
        self._transport: asyncio.Transport | None = None
        self._turn = Turn(0.0)
        self._done: asyncio.Future[Turn] | None = None
        self._head = b""
        self._tail = b""

    async def ask(self, pieces: tuple[bytes, bytes]) -> Turn:
        """Send a body and wait for the end of its stream; raise `Failed` where it does not end well."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            await loop.create_connection(lambda: self, *self._address)
        transport = self._transport
        if transport is None:
            raise Failed("the connection was closed at once")
        head = _REQUEST % (len(pieces[0]) + len(pieces[1]))
        self._head = self._tail = b""
        self._done = loop.create_future()
        self._turn = Turn(perf_counter())
        transport.writelines((head, *pieces))
        return await self._done

    def close(self) -> None:
        """Leave; a worker that still computes for this client stops."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        # Not checked: uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what was asked."""
        self._transport = None
        self._fail(f"the connection was closed: {exc or 'by the router'}")

    def data_received(self, data: bytes) -> None:
        """Take the head, then look no closer at the stream than the moments and the usage need."""
        if self._head == b"" or not self._head.endswith(b"\r\n\r\n"):
            data = self._take_head(data)
            if data == b"":
                return
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        if not self._turn.first and b"data:" in _FRAMING.sub(b"", self._tail):
            self._turn.first = perf_counter()
        if self._tail.endswith(_END):
            self._turn.ended = perf_counter()
            self._finish()

    def _take_head(self, data: bytes) -> bytes:
        """Take what belongs to the head; return what is left."""
        head, end, rest = (self._head + data).partition(b"\r\n\r\n")
        self._head = head + end
        if not end:
            return b""
        if self._head[9:12] != b"200":
            self._fail(f"the router answers {self._head[9:12].decode('ascii', 'replace')}: {rest[:200]!r}")
            self.close()
            return b""
        # So that an end right after the head looks like one after a chunk.
        self._tail = b"\r\n"
        return rest

    def _finish(self) -> None:
        usage = _USAGE.search(_FRAMING.sub(b"", self._tail))
        if usage is None or not self._turn.first:
            self._fail(f"the stream ended without usage: {self._tail[-300:]!r}")
            return
        self._turn.prompt_tokens, self._turn.cached_tokens = int(usage.group(1)), int(usage.group(2))
        if self._done is not None and not self._done.done():
            self._done.set_result(self._turn)

    def _fail(self, why: str) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(Failed(why))
