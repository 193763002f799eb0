"""Workers that stream: each reply is 120 chunks that leave one by one.

    python -m bench.proxy.chunks PORT...

nginx sends a file in a few large pieces; an engine sends a small piece for each token. One process serves all
ports, and what it costs is not in the router's figure.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import cast

import uvloop

CHUNKS = 120

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 131072}]}
_INFO = {
    "model_path": "m",
    "model_id": "m",
    "is_generation": True,
    "served_model_name": "m",
    "version": "0.33.0",
}


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _pieces() -> list[bytes]:
    event = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    event["choices"] = [{"index": 0, "delta": {"content": "ok "}}]
    piece = _chunk(b"data: %b\n\n" % json.dumps(event).encode())
    return [*[piece] * CHUNKS, _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"]


_PIECES = _pieces()


class Worker(asyncio.Protocol):
    """One connection: answers a request once it has it whole, then the next."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the connection."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass

    def data_received(self, data: bytes) -> None:
        """Answers when the request is whole."""
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end]).lower()
        _, named, rest = head.partition(b"\r\ncontent-length:")
        length = int(rest.split(b"\r\n")[0]) if named else 0
        if len(self._received) < end + 4 + length:
            return
        del self._received[: end + 4 + length]
        self._answer(head.split(b" ")[1])

    def _answer(self, path: bytes) -> None:
        assert self._transport is not None
        if path.startswith(b"/v1/") and path != b"/v1/models":
            self._transport.write(_HEAD)
            self._send(iter(_PIECES))
            return
        known = {b"/v1/models": json.dumps(_MODELS), b"/health": "", b"/metrics": ""}
        body = known.get(path, json.dumps(_INFO)).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)

    def _send(self, pieces: Iterator[bytes]) -> None:
        assert self._transport is not None
        piece = next(pieces, None)
        if piece is not None and not self._transport.is_closing():
            self._transport.write(piece)
            asyncio.get_running_loop().call_soon(self._send, pieces)


async def _serve(ports: list[int]) -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Worker, "127.0.0.1", port) for port in ports]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    uvloop.run(_serve([int(port) for port in sys.argv[1:]]))
