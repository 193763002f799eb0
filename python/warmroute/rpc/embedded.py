"""The endpoint beside a `Router` of one's own program."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import uvloop

from warmroute.config import GrpcOptions
from warmroute.native import Prompter, Router
from warmroute.rpc.fleet import OperatorPort
from warmroute.rpc.members import Members
from warmroute.rpc.server import Server
from warmroute.rpc.upstream import UpstreamOptions

_STOP_S = 5.0


@contextlib.asynccontextmanager
async def serve(
    router: Router,
    *,
    host: str | None = None,
    port: int | None = None,
    prompter: Prompter | None = None,
    operator: OperatorPort | None = None,
    options: GrpcOptions | None = None,
    upstream: UpstreamOptions | None = None,
    drain_s: float = _STOP_S,
) -> AsyncIterator[Server]:
    """Serve a router in the running loop; gives the server, whose `port` it listens on.

    `host` and `port` stand for those of the options; without either, a free port is taken.
    Without a prompter, texts and OpenAI bodies are matched as text. Without an operator, workers that are
    added are taken to be ready. At the end of the block, calls have `drain_s` seconds to finish.
    """
    options = options or GrpcOptions()
    options = replace(
        options,
        grpc_host=options.grpc_host if host is None else host,
        grpc_port=(options.grpc_port or 0) if port is None else port,
    )
    server = Server(
        router,
        prompter or Prompter(),
        operator or Members(router),
        options,
        is_ready=lambda: any(worker.state == "ready" for worker in router.workers()),
        upstream=upstream,
    )
    try:
        await server.start()
        yield server
        await server.drain(drain_s)
    finally:
        await server.stop()


@contextlib.contextmanager
def serve_in_thread(
    router: Router,
    *,
    host: str | None = None,
    port: int | None = None,
    prompter: Prompter | None = None,
    operator: OperatorPort | None = None,
    options: GrpcOptions | None = None,
    upstream: UpstreamOptions | None = None,
    drain_s: float = _STOP_S,
) -> Iterator[Server]:
    """As `serve`, for a program without a loop: on a thread of its own."""
    started = threading.Event()
    servers: list[Server] = []
    faults: list[BaseException] = []
    ended: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        end = asyncio.Event()
        async with serve(
            router,
            host=host,
            port=port,
            prompter=prompter,
            operator=operator,
            options=options,
            upstream=upstream,
            drain_s=drain_s,
        ) as server:
            servers.append(server)
            ended.append((asyncio.get_running_loop(), end))
            started.set()
            await end.wait()

    def main() -> None:
        try:
            uvloop.run(run())
        except BaseException as error:
            faults.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=main, name="warmroute-grpc", daemon=True)
    thread.start()
    started.wait()
    if not servers:
        thread.join()
        raise faults[0]
    try:
        yield servers[0]
    finally:
        loop, end = ended[0]
        # The loop of a server that failed is closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(end.set)
        thread.join()
    if faults:
        raise faults[0]
