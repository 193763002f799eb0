"""Many workers that say what a vLLM says of itself and compute nothing: one process, a port for each.

python -m bench.fleet.workers COUNT ENGINES
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop

from tests.support.vllm_page import page

MODELS = b'{"object":"list","data":[{"id":"llama","object":"model","created":1,"max_model_len":131072}]}'


class Worker(asyncio.Protocol):
    """One connection: replies that are made before anybody asks."""

    def __init__(self, replies: dict[bytes, bytes]) -> None:
        self._replies = replies
        self._head = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember it."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each head that is whole."""
        self._head += data
        while b"\r\n\r\n" in self._head:
            head, _, self._head = self._head.partition(b"\r\n\r\n")
            self._transport.write(self._replies.get(head.split(b" ", 2)[1], _reply(b"", b"404 Not Found")))


def _reply(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n%b" % (
        status,
        len(body),
        body,
    )


async def serve(count: int, engines: int) -> None:
    """Listens on free ports, and prints them in one line."""
    loop = asyncio.get_running_loop()
    replies = {
        b"/health": _reply(b""),
        b"/v1/models": _reply(MODELS),
        b"/version": _reply(b'{"version":"0.31.0"}'),
        b"/metrics": _reply(page(running=24, waiting=3, usage=0.5, steps=1000, engines=engines)),
    }
    servers = [await loop.create_server(lambda: Worker(replies), "127.0.0.1", 0) for _ in range(count)]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
