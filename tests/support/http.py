"""HTTP/1.1 at the level of bytes, for both sides of the router: what was sent is what is seen."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

MAX_HEAD_BYTES = 1 << 20


@dataclass
class Message:
    """The head of a request or a reply, and its body as far as it has been read."""

    head: bytes
    start: list[str]
    headers: list[tuple[str, str]]
    body: bytes = b""

    def get(self, name: str) -> str | None:
        """The only value of a header, `None` where it is absent; names are compared without case."""
        values = self.all(name)
        if len(values) > 1:
            raise AssertionError(f"{name} is there {len(values)} times: {values}")
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Reply(Message):
    """A reply."""

    @property
    def status(self) -> int:
        """The status code."""
        return int(self.start[1])


async def read_head(reader: asyncio.StreamReader) -> Message | None:
    """The next head, or `None` when the peer closed before its first byte."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    split = (line.partition(":") for line in lines)
    return Message(head, first.split(" ", 2), [(key, value.strip()) for key, _, value in split])


async def read_piece(reader: asyncio.StreamReader) -> bytes:
    """The next chunk of a chunked body; empty after the last one."""
    size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
    piece = await reader.readexactly(size)
    await reader.readexactly(2)
    return piece


async def read_body(reader: asyncio.StreamReader, message: Message) -> bytes:
    """The whole body by `transfer-encoding` or `content-length`; raises where it ends too early."""
    if message.get("transfer-encoding") == "chunked":
        body = bytearray()
        while piece := await read_piece(reader):
            body += piece
        return bytes(body)
    return await reader.readexactly(int(message.get("content-length") or 0))


def encode_head(start: str, headers: list[tuple[str, str]]) -> bytes:
    """A head with these lines and no other."""
    return "".join(f"{line}\r\n" for line in [start, *(f"{k}: {v}" for k, v in headers), ""]).encode(
        "latin-1"
    )


@dataclass
class Client:
    """One connection to a server on the loopback interface."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    reply: Reply | None = field(default=None, init=False)

    @classmethod
    async def connect(cls, port: int) -> Client:
        """Opens a connection."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=MAX_HEAD_BYTES))

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    async def send(
        self,
        path: str,
        body: bytes | dict[str, Any] | None = None,
        *,
        method: str = "POST",
        headers: list[tuple[str, str]] | None = None,
    ) -> None:
        """Sends a request; a body gets its `content-length`, a `dict` is written as JSON first."""
        lines = [("host", "router.test"), *(headers or [])]
        if isinstance(body, dict):
            body = json.dumps(body).encode()
            lines.append(("content-type", "application/json"))
        if body is not None:
            lines.append(("content-length", str(len(body))))
        self.writer.write(encode_head(f"{method} {path} HTTP/1.1", lines) + (body or b""))
        await self.writer.drain()

    async def read_head(self) -> Reply:
        """Waits for the head of the reply."""
        head = await read_head(self.reader)
        if head is None:
            raise ConnectionResetError("the server closed without a reply")
        self.reply = Reply(head.head, head.start, head.headers)
        return self.reply

    async def read_piece(self) -> bytes:
        """The next piece of a chunked reply; empty at its end."""
        return await read_piece(self.reader)

    async def read_rest(self) -> Reply:
        """Reads the body to its end."""
        assert self.reply is not None
        self.reply.body += await read_body(self.reader, self.reply)
        return self.reply

    def leave(self) -> None:
        """Closes the connection at once, as a client that goes away does."""
        self.writer.transport.abort()


async def request(
    port: int,
    path: str,
    body: bytes | dict[str, Any] | None = None,
    *,
    method: str | None = None,
    headers: list[tuple[str, str]] | None = None,
) -> Reply:
    """One request on a connection of its own, and its whole reply."""
    method = method or ("GET" if body is None else "POST")
    async with await Client.connect(port) as client:
        await client.send(path, body, method=method, headers=headers)
        await client.read_head()
        return await client.read_rest()
