"""What a gRPC call costs the router, over grpcio's own echo of the same sizes in the same process.

python -m bench.rpc.run [--rounds N] [--streams N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import time
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import uvloop

from bench import _report
from bench.rpc.limits import raise_open_files
from warmroute.v1 import router_pb2 as pb

WORKERS = 8
PROMPTS = 4
VOCABULARY = 128_000
AT_ONCE = 32
SIZES = {"30k tokens": 30_000, "200 bytes": 44}
OVER_ECHO_US = {"30k tokens": 40.0, "200 bytes": 25.0}
STREAM_OVER_ROUTE = 1.5
SIM_WORKERS, SIM_SPEED, CHUNKS = 8, 1.0, 120


class Bench:
    """One server process, and the calls to it."""

    def __init__(self, channel: grpc.aio.Channel, plain: grpc.aio.Channel) -> None:
        self.route: Any = channel.unary_unary("/warmroute.v1.Router/Route")
        self.report: Any = channel.unary_unary("/warmroute.v1.Router/Report")
        self.stream: Any = channel.stream_stream("/warmroute.v1.Router/RouteStream")
        self.generate: Any = channel.unary_stream("/warmroute.v1.Router/Generate")
        self.echo: Any = plain.unary_unary("/bench/Echo")
        self.echo_stream: Any = plain.stream_stream("/bench/EchoStream")
        self._cpu: Any = plain.unary_unary("/bench/Cpu")

    async def cpu_ns(self) -> int:
        """The server's CPU time so far."""
        return int.from_bytes(await self._cpu(b""), "little")

    async def measured(self, calls: int, run: Callable[[], Awaitable[None]]) -> tuple[float, float]:
        """CPU of the server in microseconds a call, and calls a second."""
        before, began = await self.cpu_ns(), time.perf_counter()
        await run()
        taken = time.perf_counter() - began
        return (await self.cpu_ns() - before) / 1e3 / calls, calls / taken


def main() -> int:
    """Measures, prints and writes `results/rpc.json`; fails where a target is missed."""
    parser = _report.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--calls", type=int, default=500, help="calls of a kind in a round")
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    raise_open_files()
    rows, targets = uvloop.run(_measure(arguments))
    print(_report.table(rows))
    return _report.finish(
        "rpc",
        seed=arguments.seed,
        versions={name: _report.version(name) for name in ("warmroute", "grpcio", "protobuf", "uvloop")},
        parameters={
            "workers": WORKERS,
            "prompts": PROMPTS,
            "at_once": AT_ONCE,
            "rounds": arguments.rounds,
            "calls": arguments.calls,
            "streams": arguments.streams,
            "chunks": CHUNKS,
            "sim_workers": SIM_WORKERS,
        },
        results=rows,
        targets=targets,
    )


async def _measure(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rng = random.Random(arguments.seed)
    rows, targets = [], []
    for size, tokens in SIZES.items():
        prompts = [
            array("I", (rng.randrange(VOCABULARY) for _ in range(tokens))).tobytes() for _ in range(PROMPTS)
        ]
        row = await _route(prompts, arguments)
        rows.append({"what": f"Route, {size}", **row})
        claim = f"Route, {size}: CPU over grpcio's echo, in us"
        targets.append(_report.target(claim, row["over_echo_us"], OVER_ECHO_US[size]))
        if size == "200 bytes":
            claim = f"Route over RouteStream, {size}: calls a second"
            targets.append(_report.target(claim, 1 / row["stream_over_route"], 1 / STREAM_OVER_ROUTE))
    row = await _generate(arguments)
    rows.append(row)
    claim = f"{row['streams']} streams of {CHUNKS} chunks: errors and chunks that are missing"
    targets.append(_report.target(claim, row["errors"] + row["chunks_missing"], 0))
    return rows, targets


async def _route(prompts: list[bytes], arguments: argparse.Namespace) -> dict[str, Any]:
    """Medians over rounds; echo, Route, echo on a stream and RouteStream take turns."""
    routes = [pb.RouteRequest(token_ids=ids, tenant="bench").SerializeToString() for ids in prompts]
    async with _serving(WORKERS) as (bench, _):
        first = [await bench.route(routes[turn % len(routes)]) for turn in range(64)]
        await _end(bench, first)
        reply_bytes = len(first[-1])
        # As long as the request, and what the reply is to be long stands at its end.
        echoes = [route[:-4] + reply_bytes.to_bytes(4, "little") for route in routes]
        samples: dict[str, list[tuple[float, float]]] = {}
        for turn in range(arguments.rounds + 1):
            seen = await _round(bench, routes, echoes, arguments.calls)
            if turn:
                for name, sample in seen.items():
                    samples.setdefault(name, []).append(sample)
    cpu = {name: statistics.median(sample[0] for sample in taken) for name, taken in samples.items()}
    rate = {name: statistics.median(sample[1] for sample in taken) for name, taken in samples.items()}
    # The difference is taken in each round, so that a slow moment falls on both.
    over = [route[0] - echo[0] for route, echo in zip(samples["route"], samples["echo"], strict=True)]
    faster = [stream[1] / route[1] for stream, route in zip(samples["stream"], samples["route"], strict=True)]
    return {
        "request_bytes": len(routes[0]),
        "reply_bytes": reply_bytes,
        "echo_us": round(cpu["echo"], 1),
        "route_us": round(cpu["route"], 1),
        "over_echo_us": round(statistics.median(over), 1),
        "calls_per_second": round(rate["route"]),
        "stream_echo_us": round(cpu["stream_echo"], 1),
        "stream_us": round(cpu["stream"], 1),
        "stream_calls_per_second": round(rate["stream"]),
        "stream_over_route": round(statistics.median(faster), 2),
    }


async def _round(
    bench: Bench, routes: list[bytes], echoes: list[bytes], calls: int
) -> dict[str, tuple[float, float]]:
    booked: list[bytes] = []

    async def unary(call: Any, requests: list[bytes], replies: list[bytes]) -> None:
        numbers = iter(range(calls))

        async def one_after_another() -> None:
            for number in numbers:
                replies.append(await call(requests[number % len(requests)]))  # noqa: PERF401 - tasks take turns

        await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))

    seen = {
        "echo": await bench.measured(calls, lambda: unary(bench.echo, echoes, [])),
        "route": await bench.measured(calls, lambda: unary(bench.route, routes, booked)),
    }
    await _end(bench, booked)
    asked = [
        pb.RouteStreamRequest(id=1, route=pb.RouteRequest.FromString(route)).SerializeToString()
        for route in routes
    ]
    seen["stream_echo"] = await bench.measured(calls, lambda: _stream(bench.echo_stream, echoes, calls))
    seen["stream"] = await bench.measured(calls, lambda: _stream(bench.stream, asked, calls))
    return seen


async def _stream(method: Any, requests: list[bytes], calls: int) -> None:
    """As many messages under way as calls are on the other way; the stream ends with its reservations."""
    stream = method()
    room = asyncio.Semaphore(AT_ONCE)

    async def write() -> None:
        for number in range(calls):
            await room.acquire()
            await stream.write(requests[number % len(requests)])

    writing = asyncio.create_task(write())
    for _ in range(calls):
        answer = await stream.read()
        assert answer is not grpc.aio.EOF
        room.release()
    await writing
    await stream.done_writing()
    assert await stream.code() is grpc.StatusCode.OK


async def _end(bench: Bench, booked: list[bytes]) -> None:
    """Reports the end of what was booked, outside of what is measured."""
    for reply in booked:
        ended = pb.Ended(outcome=pb.OUTCOME_FINISHED)
        reservation = pb.RouteResponse.FromString(reply).reservation
        await bench.report(pb.ReportRequest(reservation=reservation, ended=ended).SerializeToString())


async def _generate(arguments: argparse.Namespace) -> dict[str, Any]:
    """All streams at once, from simulated workers."""
    rng = random.Random(arguments.seed)
    prompts = [array("I", (rng.randrange(VOCABULARY) for _ in range(512))).tobytes() for _ in range(8)]
    errors: list[str] = []
    chunks = 0

    async def listen(bench: Bench, number: int) -> None:
        nonlocal chunks
        request = pb.RouteRequest(token_ids=prompts[number % 8], max_output_tokens=CHUNKS)
        call = bench.generate(pb.GenerateRequest(request=request).SerializeToString())
        try:
            while (response := await call.read()) is not grpc.aio.EOF:
                chunks += pb.GenerateResponse.FromString(response).HasField("chunk")
        except grpc.aio.AioRpcError as error:
            errors.append(f"{error.code()}: {error.details()}")

    async with _simulated() as urls, _serving(SIM_WORKERS, *urls) as (bench, _):
        streams = arguments.streams
        cpu_us, _rate = await bench.measured(
            streams * CHUNKS, lambda: _all(listen(bench, number) for number in range(streams))
        )
    for error in sorted(set(errors))[:5]:
        print(f"error: {error}")
    return {
        "what": "Generate",
        "streams": arguments.streams,
        "errors": len(errors),
        "chunks_missing": arguments.streams * CHUNKS - chunks,
        "chunk_us": round(cpu_us, 1),
    }


async def _all(calls: Any) -> None:
    await asyncio.gather(*calls)


@contextlib.asynccontextmanager
async def _serving(workers: int, *urls: str) -> AsyncIterator[tuple[Bench, asyncio.subprocess.Process]]:
    async with _process("bench.rpc.serve", str(workers), *urls) as (process, ports):
        port, plain = ports
        options = [("grpc.max_receive_message_length", -1)]
        async with (
            grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel,
            grpc.aio.insecure_channel(f"127.0.0.1:{plain}", options=options) as echo,
        ):
            yield Bench(channel, echo), process


@contextlib.asynccontextmanager
async def _simulated() -> AsyncIterator[list[str]]:
    async with _process("bench.rpc.workers", str(SIM_WORKERS), str(SIM_SPEED)) as (_, ports):
        yield [f"http://127.0.0.1:{port}" for port in ports]


@contextlib.asynccontextmanager
async def _process(*module: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[int]]]:
    """A process of this bench; it writes its ports, and ends with its standard input."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *module, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield process, [int(port) for port in (await process.stdout.readline()).split()]
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 20)
        except TimeoutError:
            process.kill()
            await process.wait()


if __name__ == "__main__":
    sys.exit(main())
