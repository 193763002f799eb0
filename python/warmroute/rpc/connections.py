"""The connections to workers, kept for the next request while a worker keeps them, too."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

import aiohttp

# As in the HTTP router: a kept connection that breaks within this time was closed before the request came.
_STALE_WITHIN_S = 1.0
# What ends a reply follows its last event at once; a connection whose end is not there by then is closed.
_END_S = 0.1
_READ_BYTES = 64 << 10


class _Sending:
    """What is learnt of one sending of a request."""

    reused = False


class Connections:
    """Connections to workers, in the loop that first uses them."""

    def __init__(self, idle_s: float) -> None:
        """Take for how long an idle connection is kept; 0 keeps none."""
        self._idle_s = idle_s
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], times: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send a request; where a kept connection turns out to be closed, on another one.

        Nobody did any work then, so that this is no retry. A connection that fails is gone: the last try
        is made on a new one.
        """
        while True:
            sending, began = _Sending(), time.monotonic()
            try:
                return await self._open().post(
                    url,
                    data=body,
                    headers=headers,
                    timeout=times,
                    allow_redirects=False,
                    trace_request_ctx=sending,
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not sending.reused or time.monotonic() - began > _STALE_WITHIN_S:
                    raise

    async def finish(self, response: aiohttp.ClientResponse) -> None:
        """Read what comes after the last event, so that the connection can be used again."""
        if self._idle_s > 0:
            with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
                async with asyncio.timeout(_END_S):
                    while await response.content.read(_READ_BYTES):
                        pass

    async def close(self) -> None:
        """Close what is open."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            kept: dict[str, Any] = {"keepalive_timeout": self._idle_s}
            keep = kept if self._idle_s > 0 else {"force_close": True}
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_reused)
            self._session = aiohttp.ClientSession(
                # Open calls are bounded by `--grpc-max-calls`, and with them the connections that are kept.
                connector=aiohttp.TCPConnector(limit=0, **keep),
                # What a worker sets for one caller is not sent for another.
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "warmroute"},
                auto_decompress=False,
                trace_configs=[trace],
            )
        return self._session


async def _reused(
    _session: aiohttp.ClientSession, context: Any, _params: aiohttp.TraceConnectionReuseconnParams
) -> None:
    context.trace_request_ctx.reused = True
