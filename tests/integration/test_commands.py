"""The commands as processes: how they start, what they say, how they end."""

import asyncio
import contextlib
import json
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import zmq
import zmq.asyncio

from tests.support.http import request
from tests.support.process import Router, warmroute_command
from tests.support.waiting import until
from warmroute.native import SimServer
from warmroute.sim import TOKENIZER

SECONDS = 30.0


async def run(*arguments: str, seconds: float = SECONDS) -> tuple[int, str, str]:
    """Run a command to its end: exit status, standard output, standard error."""
    process = await asyncio.create_subprocess_exec(
        *warmroute_command(),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(seconds):
        output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


@contextlib.asynccontextmanager
async def sim_worker(*flags: str) -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    """A simulated worker as a process, with its port."""
    process = await asyncio.create_subprocess_exec(
        *warmroute_command(),
        *("sim-worker", "--port", "0", "--log-format", "json", *flags),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(SECONDS):
            line = await process.stderr.readline()
        yield json.loads(line)["port"], process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()
    assert process.returncode == 0


def chat(text: str) -> bytes:
    body = {"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 4}
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve"], ["fleet.worker", "at least one worker"]),
        (["serve", "--worker", "h:1"], ["worker.url", "'h:1'", "http://HOST"]),
        (["serve", "--worker", "http://h:1", "--port", "70000"], ["listen.port = 70000", "from 0 to 65535"]),
        (["serve", "--worker", "http://h:1", "--tokenizer", "/nowhere"], ["tokenizer", "/nowhere"]),
        (["serve", "--worker", "http://h:1", "--threads", "-1"], ["proxy.threads = -1"]),
        (["sim-worker", "--speed", "0"], ["engine.speed = 0.0"]),
        (["demo", "--agents", "none"], ["demo.agents = 'none'"]),
    ],
)
async def test_a_wrong_option_ends_with_status_2(arguments: list[str], words: list[str]) -> None:
    status, output, errors = await run(*arguments)
    assert (status, output) == (2, "")
    assert all(word in errors for word in words), errors
    assert "Traceback" not in errors


async def test_a_port_that_is_taken_ends_with_status_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, _, errors = await run("serve", "--worker", "http://127.0.0.1:1", "--port", port)
    assert status == 2
    assert port in errors


async def test_the_router_takes_in_workers_that_come_up_later(tmp_path: Path) -> None:
    first = SimServer(tokenizer=str(TOKENIZER), speed=50.0)
    port = first.port
    first.stop()
    flags = ("--tokenizer", str(TOKENIZER), "--probe-interval-ms", "50")
    async with Router(tmp_path / "log", [f"http://127.0.0.1:{port}"], *flags, ready=False) as router:
        assert (await router.get("/readyz")).status == 503
        assert (await router.get("/v1/models")).json() == {"object": "list", "data": []}
        reply = await request(router.port, "/v1/chat/completions", body=chat("hello"))
        assert reply.status == 503
        second = SimServer(tokenizer=str(TOKENIZER), speed=50.0, port=port)
        try:
            await router.sees_ready(1)
            models = (await router.get("/v1/models")).json()["data"]
            assert [model["id"] for model in models] == ["sim"]
            (worker,) = await router.workers()
            assert (worker["block_size"], worker["kv_blocks"]) == (16, 26_250)
            reply = await request(router.port, "/v1/chat/completions", body=chat("hello"))
            assert reply.status == 200
        finally:
            second.stop()
        await router.sees_ready(0)
        router.terminate()
        assert await router.wait() == 0


async def test_control_paths_answer_for_the_fleet(tmp_path: Path) -> None:
    server = SimServer(tokenizer=str(TOKENIZER), speed=50.0)
    text = "a prompt of some length " * 40
    try:
        flags = ("--tokenizer", str(TOKENIZER), "--probe-interval-ms", "50")
        async with Router(tmp_path / "log", [f"one=http://127.0.0.1:{server.port}"], *flags) as router:
            assert (await request(router.port, "/v1/chat/completions", body=chat(text))).status == 200
            reply = await request(router.port, "/warmroute/v1/explain", body=chat(text))
            assert reply.status == 200
            document = reply.json()
            assert document["decision"]["worker"] == "one"
            assert document["decision"]["overlap_tokens"] > 100
            assert document["candidates"][0]["cost_seconds"]["total"] >= 0
            page = (await router.get("/metrics")).body.decode()
            assert "warmroute_affinity_approximate 0.0" in page
            assert 'warmroute_requests_total{ending="2xx",kind="chat_completions"} 1.0' in page
            assert 'warmroute_prompts_total{rung="local"} 1.0' in page
            assert 'warmroute_worker_ready{worker="one"} 1.0' in page
            assert (await router.get("/nothing")).status == 404
    finally:
        server.stop()


async def test_without_a_tokenizer_it_says_that_affinity_is_approximate(tmp_path: Path) -> None:
    server = SimServer(speed=50.0)
    try:
        async with Router(tmp_path / "log", [f"http://127.0.0.1:{server.port}"]) as router:
            assert "warmroute_affinity_approximate 1.0" in (await router.get("/metrics")).body.decode()
            assert router.log_text().count("affinity is approximate") == 1
    finally:
        server.stop()


async def test_a_second_signal_ends_a_drain(tmp_path: Path) -> None:
    # At this speed the reply takes far longer than the test.
    server = SimServer(speed=0.01)
    try:
        async with Router(tmp_path / "log", [f"http://127.0.0.1:{server.port}"]) as router:
            hanging = asyncio.create_task(request(router.port, "/v1/chat/completions", body=chat("hello")))

            async def runs() -> bool:
                return await router.active_requests() == 1

            await until(runs, "the request runs")
            router.terminate()

            async def drains() -> bool:
                return "draining" in router.log_text()

            await until(drains, "the drain has begun")
            router.process.send_signal(signal.SIGINT)
            assert await router.wait() == 0
            assert "ending at once" in router.log_text()
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, IndexError):
                await hanging
    finally:
        server.stop()


async def test_a_simulated_worker_publishes_and_replays_kv_events(tmp_path: Path) -> None:
    events, replay = f"ipc://{tmp_path}/events", f"ipc://{tmp_path}/replay"
    flags = ("--speed", "100", "--kv-events-endpoint", events, "--kv-events-replay-endpoint", replay)
    context = zmq.asyncio.Context()
    try:
        async with sim_worker(*flags, "--kv-events-topic", "kv@test") as (port, _):
            sources = (await request(port, "/kv_event_sources")).json()
            assert sources["0"]["endpoint"] == events
            with context.socket(zmq.DEALER) as client, context.socket(zmq.SUB) as subscriber:
                subscriber.subscribe("kv@")
                subscriber.connect(events)
                await _published(subscriber, port)
                client.connect(replay)
                await client.send_multipart([b"", bytes(8)])
                numbers = []
                while (reply := await client.recv_multipart())[2] != b"\xff" * 8:
                    assert reply[1] == b"kv@test"
                    numbers.append(int.from_bytes(reply[2], "big"))
                assert numbers == list(range(len(numbers)))
                assert numbers
    finally:
        context.destroy(linger=0)


async def _published(subscriber: zmq.asyncio.Socket, port: int) -> None:
    """Send prompts until one of their events arrives: what is published before the subscription is lost."""
    for number in range(200):
        text = f"{number} is a new prompt of more than one block, so that a block of it is stored. " * 5
        assert (await request(port, "/v1/chat/completions", body=chat(text))).status == 200
        if await subscriber.poll(100):
            topic, sequence, payload = await subscriber.recv_multipart()
            assert (topic, len(sequence)) == (b"kv@test", 8)
            assert b"BlockStored" in payload
            return
    raise AssertionError("no event arrived")


async def test_a_kv_endpoint_that_cannot_be_had_is_a_wrong_option(tmp_path: Path) -> None:
    flags = ("--port", "0", "--kv-events-endpoint", f"ipc://{tmp_path}/none/events")
    status, _, errors = await run("sim-worker", *flags)
    assert status == 2
    assert "kv_events_endpoint" in errors


async def test_a_small_demo_plays_both_and_writes_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    flags = "--seconds 5 --speed 20 --agents 4 --clients 8 --workers 2 --system-tokens 2000 --seed 3".split()
    status, output, errors = await run("demo", *flags, "--json", str(path))
    assert status == 0, errors
    assert "round robin        routed" in output
    document = json.loads(path.read_text())
    assert (document["seed"], document["speed"], document["scenario"]["clients"]) == (3, 20.0, 8)
    for play in document["plays"].values():
        assert play["requests"] > 0
        assert play["failed"] == 0
        assert 0 < play["hit_rate"] < 1


async def test_routing_pays_in_the_scenario_of_the_demo(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    status, _, errors = await run("demo", *"--seconds 25 --speed 8".split(), "--json", str(path), seconds=120)
    assert status == 0, errors
    plays = json.loads(path.read_text())["plays"]
    plain, routed = plays["round robin"], plays["routed"]
    assert routed["hit_rate"] >= 0.93
    assert routed["requests_per_second"] >= 2 * plain["requests_per_second"]
    assert routed["ttft_p99"] <= plain["ttft_p99"] / 4
    assert routed["recompute_share"] < 0.1 < plain["recompute_share"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_demo_that_is_interrupted_ends_its_router(number: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(
        *warmroute_command(),
        *("demo", "--seconds", "60", "--agents", "2", "--clients", "2", "--system-tokens", "500"),
        stderr=asyncio.subprocess.PIPE,
    )

    def children() -> list[str]:
        return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()

    async def has_a_router() -> bool:
        return len(children()) == 1

    await until(has_a_router, "the router is started")
    (router,) = children()
    process.send_signal(number)
    async with asyncio.timeout(SECONDS):
        await process.communicate()
    assert process.returncode == 130
    assert not Path(f"/proc/{router}").exists()
