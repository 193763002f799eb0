"""The endpoint and grpcio's own echo, in one process: what the one costs over the other is warmroute's.

    python -m bench.rpc.serve WORKERS [URL...]

Writes the two ports. `/bench/Echo` answers any message with as many bytes as the last four of it say, and
`/bench/Cpu` with the CPU time of this process in nanoseconds.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from typing import Any

import grpc
import grpc.aio
import uvloop

import warmroute
import warmroute.rpc
from bench.rpc.limits import raise_open_files
from warmroute.config import GrpcOptions

_REPLY = bytes(1 << 16)


async def echo(request: bytes, _context: Any) -> bytes:
    """As many bytes as the request asks for."""
    return _REPLY[: int.from_bytes(request[-4:], "little")]


async def cpu(_request: bytes, _context: Any) -> bytes:
    """The CPU time of the process so far."""
    return time.process_time_ns().to_bytes(8, "little")


async def echo_stream(_requests: Any, context: Any) -> None:
    """The same on a stream."""
    while (request := await context.read()) is not grpc.aio.EOF:
        await context.write(_REPLY[: int.from_bytes(request[-4:], "little")])


async def main() -> None:
    """Serve until standard input ends."""
    router = warmroute.Router(block_size=16)
    urls = sys.argv[2:]
    for number in range(int(sys.argv[1])):
        router.add_worker(f"w{number}", url=urls[number] if urls else f"http://10.0.0.{number}:8000")
    plain = grpc.aio.server(options=[("grpc.max_receive_message_length", 16 << 20)])
    methods: dict[str, Any] = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "EchoStream": grpc.stream_stream_rpc_method_handler(echo_stream),
        "Cpu": grpc.unary_unary_rpc_method_handler(cpu),
    }
    plain.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", methods),))
    port = plain.add_insecure_port("127.0.0.1:0")
    await plain.start()
    options = GrpcOptions(grpc_max_reservations=1_000_000, grpc_lease_time_ms=600_000)
    async with warmroute.rpc.serve(router, options=options) as server:
        gc.freeze()
        print(server.port, port, flush=True)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()
    await plain.stop(None)


if __name__ == "__main__":
    raise_open_files()
    uvloop.run(main())
