import asyncio
from collections.abc import AsyncIterator

import pytest
import uvloop

from warmroute.demo.client import Client, Failed

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
USAGE = (
    b'data: {"usage": {"prompt_tokens": 30000, "completion_tokens": 120, '
    b'"prompt_tokens_details": {"cached_tokens": 29000}}}\n\n'
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


REPLY = [HEAD, chunk(b'data: {"choices": []}\n\n'), chunk(USAGE), chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"]


class Server:
    """Answers every request with the same pieces, each sent when the one before it was read."""

    def __init__(self) -> None:
        self.pieces = REPLY
        self.bodies: list[bytes] = []
        self.connections = 0
        self.hang_up = False
        self.server: asyncio.Server | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.bodies.append(await reader.readexactly(length))
                for piece in self.pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if self.hang_up:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @property
    def port(self) -> int:
        assert self.server is not None
        port: int = self.server.sockets[0].getsockname()[1]
        return port


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    server.server = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    yield server
    server.server.close()
    await server.server.wait_closed()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    client = Client("127.0.0.1", server.port)
    yield client
    client.close()


@pytest.mark.parametrize("split", [1, 7, 100_000])
async def test_a_stream_is_taken_however_it_is_cut(server: Server, client: Client, split: int) -> None:
    whole = b"".join(REPLY)
    server.pieces = [whole[at : at + split] for at in range(0, len(whole), split)]
    for _ in range(2):
        turn = await client.ask((b"one ", b"body"))
        assert (turn.prompt_tokens, turn.cached_tokens) == (30_000, 29_000)
        assert turn.sent < turn.first <= turn.ended
    assert server.bodies == [b"one body"] * 2
    assert server.connections == 1


@pytest.mark.parametrize("size", [1, 3, 16])
async def test_chunks_may_be_cut_inside_an_event(server: Server, client: Client, size: int) -> None:
    events = b'data: {"choices": []}\n\n' + USAGE + b"data: [DONE]\n\n"
    chunks = [chunk(events[at : at + size]) for at in range(0, len(events), size)]
    server.pieces = [HEAD + b"".join(chunks) + b"0\r\n\r\n"]
    assert (await client.ask((b"", b"x"))).cached_tokens == 29_000


def test_it_runs_on_uvloop_too() -> None:
    async def ask() -> int:
        server = Server()
        server.server = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        client = Client("127.0.0.1", server.port)
        turn = await client.ask((b"", b"x"))
        client.close()
        server.server.close()
        return turn.cached_tokens

    assert uvloop.run(ask()) == 29_000


async def test_an_error_fails_the_turn_and_the_next_one_connects_again(
    server: Server, client: Client
) -> None:
    server.pieces = [b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}"]
    with pytest.raises(Failed, match="429"):
        await client.ask((b"", b"x"))
    server.pieces = REPLY
    assert (await client.ask((b"", b"x"))).cached_tokens == 29_000
    assert server.connections == 2


@pytest.mark.parametrize("pieces", [[], REPLY[:2], [HEAD, b"0\r\n\r\n"]])
async def test_a_stream_that_breaks_off_fails_the_turn(
    server: Server, client: Client, pieces: list[bytes]
) -> None:
    server.pieces, server.hang_up = pieces, True
    with pytest.raises(Failed):
        await client.ask((b"", b"x"))
