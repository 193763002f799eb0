"""A vLLM worker that does what a test tells it, and remembers what it was sent, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.http import MAX_HEAD_BYTES, Message, encode_head, read_body, read_head

CHUNKED = ("transfer-encoding", "chunked")
SSE = ("content-type", "text/event-stream; charset=utf-8")


@dataclass
class Exchange:
    """One request that a worker received, and the way to answer it."""

    request: Message
    connection: int
    received_at: float
    _writer: asyncio.StreamWriter
    left: asyncio.Event = field(default_factory=asyncio.Event)
    left_at: float | None = None
    keep_alive: bool = True

    @property
    def path(self) -> str:
        """The path as it came, with its query."""
        return self.request.start[1]

    async def head(self, status: int = 200, *headers: tuple[str, str]) -> None:
        """Sends the head of a reply."""
        await self.raw(encode_head(f"HTTP/1.1 {status} Scripted", list(headers)))

    async def chunk(self, data: bytes) -> None:
        """Sends one chunk of a chunked body; an empty one ends it."""
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def raw(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    def die(self) -> None:
        """Resets the connection, as a process that is killed does."""
        self.keep_alive = False
        self._writer.transport.abort()

    def notice_departure(self) -> None:
        """Records that the router closed its side."""
        if not self.left.is_set():
            self.left_at = time.monotonic()
            self.left.set()


Behaviour = Callable[[Exchange], Awaitable[None]]


class FakeWorker:
    """A worker on the loopback interface. Use it as an async context manager.

    Requests to `/v1/*` other than the model list get the next behaviour given to `then`, or else the one of
    `always`, and are kept in `exchanges`; `/health`, `/v1/models` and `/metrics` are answered as vLLM does,
    unless `answers_looks` is false: then they hang.
    `/tokenize` gets the behaviour of `tokenize`; without one it is not there, and `/render` paths never are.
    """

    def __init__(self, model: str = "tiny", max_model_len: int = 8192, port: int = 0) -> None:
        self.model = model
        self.max_model_len = max_model_len
        self.port = port
        self.healthy = True
        self.answers_looks = True
        self.has_metrics = True
        self.started = 1.0
        self.steps = 0
        self.exchanges: list[Exchange] = []
        self.probes = 0
        self.tokenize: Behaviour | None = None
        self.tokenizations: list[dict[str, Any]] = []
        self._next: deque[Behaviour] = deque()
        self._always: Behaviour = answer
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._arrived = asyncio.Condition()

    @property
    def url(self) -> str:
        """Where the worker listens."""
        return f"http://127.0.0.1:{self.port}"

    def then(self, *behaviours: Behaviour) -> None:
        """What the next requests get, in turn."""
        self._next.extend(behaviours)

    def always(self, behaviour: Behaviour) -> None:
        """What requests get when `then` has nothing for them."""
        self._always = behaviour

    async def exchange(self, index: int = 0) -> Exchange:
        """Waits until the worker has received `index + 1` requests, and gives the one at `index`."""
        async with self._arrived, asyncio.timeout(10):
            await self._arrived.wait_for(lambda: len(self.exchanges) > index)
        return self.exchanges[index]

    async def start(self) -> None:
        """Listens, on the port it had before if it had one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stops listening and resets every connection, as a process that is killed does."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def __aenter__(self) -> FakeWorker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = asyncio.StreamReader(limit=MAX_HEAD_BYTES)
        return _Connection(reader, self._serve)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._serve_one(reader, writer):
                    pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request, and tells whether the connection may carry another."""
        request = await read_head(reader)
        if request is None:
            return False
        request.body = await read_body(reader, request)
        exchange = Exchange(request, id(writer), time.monotonic(), writer)
        connection = writer.transport.get_protocol()
        assert isinstance(connection, _Connection)
        connection.exchange = exchange
        await self._behaviour(exchange)(exchange)
        connection.exchange = None
        return exchange.keep_alive

    def _behaviour(self, exchange: Exchange) -> Behaviour:
        path = exchange.path.split("?")[0]
        if path.endswith("/render"):
            return reply({"detail": "Not Found"}, status=404)
        if path == "/tokenize":
            self.tokenizations.append(exchange.request.json())
            return self.tokenize or reply({"detail": "Not Found"}, status=404)
        if path.startswith("/v1/") and path != "/v1/models":
            self.exchanges.append(exchange)
            asyncio.get_running_loop().create_task(self._announce())
            return self._next.popleft() if self._next else self._always
        self.probes += 1
        if not self.answers_looks:
            return silent
        if path == "/health":
            return reply(b"", status=200 if self.healthy else 503)
        if path == "/v1/models":
            card: dict[str, Any] = {"id": self.model, "object": "model", "owned_by": "vllm", "created": 1}
            card |= {"root": self.model, "parent": None, "max_model_len": self.max_model_len}
            return reply({"object": "list", "data": [card]})
        if path == "/metrics" and self.has_metrics:
            return reply(self._metrics(), headers=[("content-type", "text/plain; version=0.0.4")])
        return reply({"detail": "Not Found"}, status=404)

    async def _announce(self) -> None:
        async with self._arrived:
            self._arrived.notify_all()

    def _metrics(self) -> bytes:
        label = f'engine="0",model_name="{self.model}"'
        return (
            f"process_start_time_seconds {self.started}\n"
            f"vllm:num_requests_running{{{label}}} 0.0\n"
            f"vllm:num_requests_waiting{{{label}}} 0.0\n"
            f"vllm:kv_cache_usage_perc{{{label}}} 0.0\n"
            f"vllm:iteration_tokens_total_count{{{label}}} {self.steps}.0\n"
            f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="4096",{label}}} 1.0\n'
        ).encode()


class _Connection(asyncio.StreamReaderProtocol):
    """Tells the running exchange at once when the router closes, whatever the behaviour is waiting for."""

    exchange: Exchange | None = None

    def eof_received(self) -> bool | None:
        self._notice()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._notice()
        super().connection_lost(exc)

    def _notice(self) -> None:
        if self.exchange is not None:
            self.exchange.notice_departure()


async def answer(exchange: Exchange) -> None:
    """A completion of two tokens in the form that was asked for: chat or text, one JSON or a stream."""
    asked: dict[str, Any] = json.loads(exchange.request.body)
    chat = exchange.path.startswith("/v1/chat")
    kind = "chat.completion" if chat else "text_completion"
    base = {"id": "cmpl-1", "created": 1, "model": asked.get("model", "tiny")}
    usage = {"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10}
    if not asked.get("stream"):
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "logprobs": None}
        choice |= {"message": {"role": "assistant", "content": "hello"}} if chat else {"text": "hello"}
        await reply({**base, "object": kind, "choices": [choice], "usage": usage})(exchange)
        return
    events = []
    for text in ("hel", "lo"):
        choice = {"index": 0, "finish_reason": None} | (
            {"delta": {"content": text}} if chat else {"text": text}
        )
        event = {**base, "object": f"{kind}.chunk" if chat else kind, "choices": [choice]}
        events.append(b"data: %b\n\n" % json.dumps(event).encode())
    await stream(*events, b"data: [DONE]\n\n")(exchange)


def reply(
    body: bytes | dict[str, Any], status: int = 200, headers: list[tuple[str, str]] | None = None
) -> Behaviour:
    """One reply with a `content-length`; a `dict` is sent as JSON."""

    async def behave(exchange: Exchange) -> None:
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        lines = list(headers or [])
        if isinstance(body, dict):
            lines.append(("content-type", "application/json"))
        await exchange.head(status, *lines, ("content-length", str(len(data))))
        await exchange.raw(data)

    return behave


def error(status: int, headers: list[tuple[str, str]] | None = None) -> Behaviour:
    """An error as vLLM writes it."""
    detail = {"message": f"scripted {status}", "type": "ScriptedError", "param": None, "code": status}
    return reply({"error": detail}, status, headers)


def stream(*pieces: bytes) -> Behaviour:
    """A stream whose pieces are sent at once."""

    async def behave(exchange: Exchange) -> None:
        await exchange.head(200, SSE, CHUNKED)
        for piece in pieces:
            await exchange.chunk(piece)
        await exchange.chunk(b"")

    return behave


def gated_stream(pieces: asyncio.Queue[bytes]) -> Behaviour:
    """A stream that sends each piece when the test puts it into the queue; an empty one ends it."""

    async def behave(exchange: Exchange) -> None:
        await exchange.head(200, SSE, CHUNKED)
        while piece := await _unless_left(exchange, pieces.get()):
            await exchange.chunk(piece)
        await exchange.chunk(b"")

    return behave


async def _unless_left(exchange: Exchange, wanted: Awaitable[bytes]) -> bytes:
    """What `wanted` gives, or nothing when the router leaves first."""
    getting = asyncio.ensure_future(wanted)
    leaving = asyncio.ensure_future(exchange.left.wait())
    await asyncio.wait((getting, leaving), return_when=asyncio.FIRST_COMPLETED)
    leaving.cancel()
    if not getting.done():
        getting.cancel()
        raise ConnectionResetError("the router left")
    return getting.result()


async def silent(exchange: Exchange) -> None:
    """No byte until the router leaves."""
    await exchange.left.wait()


async def headers_then_silent(exchange: Exchange) -> None:
    """The head of a stream at once, and no byte of its body until the router leaves."""
    await exchange.head(200, SSE, CHUNKED)
    await exchange.left.wait()


def dies_after(*pieces: bytes) -> Behaviour:
    """A stream that breaks off after these pieces."""

    async def behave(exchange: Exchange) -> None:
        await exchange.head(200, SSE, CHUNKED)
        for piece in pieces:
            await exchange.chunk(piece)
        # A reset overtakes what the peer has not read yet; an end of file does not.
        exchange.keep_alive = False

    return behave


async def closes_at_once(exchange: Exchange) -> None:
    """No reply: the connection is reset."""
    exchange.die()


def garbage(data: bytes) -> Behaviour:
    """Bytes that need not be HTTP, then the end."""

    async def behave(exchange: Exchange) -> None:
        await exchange.raw(data)
        exchange.keep_alive = False

    return behave
