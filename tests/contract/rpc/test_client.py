"""`warmroute.client`, both of its kinds, against an endpoint."""

from __future__ import annotations

import asyncio
import threading
import time
from array import array
from collections.abc import Iterator
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

import warmroute
import warmroute.rpc
from tests.support.waiting import until, wait_until
from warmroute.client import AsyncClient, Client
from warmroute.client.faults import Fault, error_in
from warmroute.client.keeper import Keeper
from warmroute.client.messages import Booked, outcome_of, packed, request_of
from warmroute.client.retry import Patience
from warmroute.config import GrpcOptions
from warmroute.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NoEligibleWorker,
    RouterUnreachable,
    Saturated,
    TooManyReservations,
    Unauthorized,
    UnknownModel,
    WarmrouteError,
    WorkerUnreachable,
)
from warmroute.native import SimServer
from warmroute.rpc.router import RouterService
from warmroute.v1 import router_pb2 as pb

IDS = array("I", range(1, 1_001))


@pytest.fixture
def router() -> warmroute.Router:
    router = warmroute.Router()
    router.add_worker("w1", url="http://10.0.0.1:8000", models=["m"])
    router.add_worker("w2", url="http://10.0.0.2:8000", models=["m"], dp_rank=1)
    return router


@pytest.fixture
def port(router: warmroute.Router) -> Iterator[int]:
    options = GrpcOptions(grpc_lease_time_ms=600)
    with warmroute.rpc.serve_in_thread(router, options=options, drain_s=0.1) as server:
        yield server.port


def stats(router: warmroute.Router, *names: str) -> list[int]:
    counts = router.stats()
    return [counts[name] for name in names]


def test_a_block_reports_its_end(router: warmroute.Router, port: int) -> None:
    with Client(f"127.0.0.1:{port}") as client:
        with client.route(
            IDS, model="m", tenant="t", max_output_tokens=120, max_alternatives=1
        ) as reservation:
            assert (reservation.prompt_tokens, reservation.reason, reservation.is_open) == (
                1_000,
                "cold",
                True,
            )
            assert reservation.url.startswith("http://10.0.0.")
            assert len(reservation.alternatives) == 1
            assert reservation.predicted_ttft > 0
            assert reservation.data_parallel_rank == (1 if reservation.worker == "w2" else None)
            reservation.first_token()
            reservation.progress(10)
            reservation.cached_tokens(16)
            assert stats(router, "open") == [1]
            assert "is_open=True" in repr(reservation)
        assert not reservation.is_open
        assert not reservation.close()
        assert stats(router, "open", "finished", "reported_cached_tokens") == [0, 1, 16]
        with pytest.raises(ZeroDivisionError), client.route(IDS) as failing:
            _ = 1 / 0
        assert failing.overlap_tokens == 992
        with pytest.raises(KeyboardInterrupt), client.route(IDS):
            raise KeyboardInterrupt
        client.route(IDS).close("unreachable")
        with pytest.raises(InvalidRequest, match="outcome"):
            client.route(IDS).close("well")  # type: ignore[arg-type]
        assert stats(router, "finished", "failed", "cancelled") == [1, 2, 1]


def test_prompts_of_every_kind(router: warmroute.Router, port: int) -> None:
    with Client(f"127.0.0.1:{port}") as client:
        same: list[Any] = [IDS, IDS.tobytes(), bytearray(IDS.tobytes()), list(IDS), range(1, 1_001)]
        same += [np.arange(1, 1_001, dtype=np.uint32), np.arange(1, 1_001, dtype=np.int64)]
        for prompt in same:
            assert packed(prompt) == IDS.tobytes()
            assert client.decide(prompt, model="m").prompt_tokens == 1_000
        assert client.decide("a text " * 100).rung == pb.RUNG_TEXT
        assert (
            client.explain({"messages": [{"role": "user", "content": "x" * 400}]}).inexact == "no_tokenizer"
        )
        assert client.decide({"prompt": [1, 2, 3]}).rung == pb.RUNG_CLIENT_IDS
        for wrong in ([-1], [2**32], ["a"], [1.5]):
            with pytest.raises(InvalidRequest):
                client.decide(wrong)  # type: ignore[arg-type]


def test_errors_are_those_of_the_tree(router: warmroute.Router, port: int) -> None:
    with Client(f"127.0.0.1:{port}", timeout_s=1) as client:
        with pytest.raises(InvalidRequest) as raised:
            client.route(b"123")
        assert raised.value.field == "token_ids"
        with pytest.raises(UnknownModel):
            client.route(IDS, model="other")
        with pytest.raises(UnknownModel), client.stream() as stream:
            stream.route(IDS, model="other")
        # One retry a second as the router advises: it is tried again, and then time is up.
        for name in ("w1", "w2"):
            router.set_ready(name, False)
        began = time.monotonic()
        with pytest.raises(NoEligibleWorker):
            client.route(IDS, timeout_s=1.5)
        assert time.monotonic() - began >= 1.0
        threading.Timer(0.3, lambda: router.set_ready("w1", True)).start()
        with client.route(IDS, timeout_s=20) as reservation:
            assert reservation.worker == "w1"
        assert router.stats()["no_eligible_worker"] >= 2
    with Client("127.0.0.1:1") as client, pytest.raises(RouterUnreachable):
        client.route(IDS, timeout_s=0.4)


def test_a_stream_s_reservations_end_with_it(router: warmroute.Router, port: int) -> None:
    with Client(f"127.0.0.1:{port}") as client:
        with client.stream() as stream:
            with stream.route(IDS, model="m") as reservation:
                reservation.first_token()
                reservation.progress(3)
            with pytest.raises(ZeroDivisionError), stream.route(IDS):
                _ = 1 / 0
            left = [stream.route(IDS) for _ in range(10)]
            # Answers come in order: this one says that the reports before it arrived.
            assert stats(router, "open", "finished", "failed") == [10, 1, 1]
            assert {each.lease_time_s for each in left} == {0}
        wait_until(lambda: stats(router, "open", "abandoned") == [0, 10])
        with pytest.raises(WarmrouteError):
            stream.route(IDS)


def test_an_open_reservation_is_renewed(router: warmroute.Router, port: int) -> None:
    with Client(f"127.0.0.1:{port}") as client:
        with client.route(IDS) as reservation:
            with Client(f"127.0.0.1:{port}") as other:
                lost = other.route(IDS)
            # The other client is closed: its reservation ends, and long after its lease time ours is there.
            wait_until(lambda: stats(router, "open", "abandoned") == [1, 1])
            assert stats(router, "open") == [1]
            assert reservation.is_open
        assert stats(router, "open", "finished") == [0, 1]
        # The router knows nothing of it any more: whoever reports goes on all the same.
        lost._report = client._report
        lost.close()


async def test_asyncio(router: warmroute.Router, port: int) -> None:
    async with AsyncClient(f"127.0.0.1:{port}", timeout_s=5) as client:
        async with await client.route(IDS, model="m") as reservation:
            await reservation.first_token()
            await reservation.progress(5)
            reservation.cached_tokens(32)
            # Longer than its lease time.
            await asyncio.sleep(1.0)
            assert stats(router, "open") == [1]
        assert stats(router, "open", "finished", "reported_cached_tokens") == [0, 1, 32]
        with pytest.raises(ZeroDivisionError):
            async with await client.route(IDS):
                _ = 1 / 0

        async def hang() -> None:
            async with await client.route(IDS):
                await asyncio.Event().wait()

        task = asyncio.create_task(hang())

        async def is_open() -> bool:
            return stats(router, "open") == [1]

        await until(is_open, "it is booked")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert stats(router, "open", "finished", "failed", "cancelled") == [0, 1, 1, 1]
        assert (await client.decide(IDS)).overlap_tokens == 992
        assert len((await client.explain(IDS)).candidates) == 2
        with pytest.raises(UnknownModel):
            await client.route(IDS, model="other")
        router.set_ready("w1", False)
        router.set_ready("w2", False)
        with pytest.raises(NoEligibleWorker):
            await client.route(IDS, timeout_s=0.5)
        asyncio.get_running_loop().call_later(0.3, router.set_ready, "w2", True)
        await (await client.route(IDS)).close()


class Late:
    """An endpoint's answers to decisions on streams, held back until they are let go."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.came, self.let_go = threading.Event(), threading.Event()
        answer = RouterService._answer

        async def late(service: RouterService, stream: Any, request: bytes) -> bytes:
            data = await answer(service, stream, request)
            if pb.RouteStreamRequest.FromString(request).HasField("route"):
                self.came.set()
                await asyncio.to_thread(self.let_go.wait)
            return data

        patch.setattr(RouterService, "_answer", late)


async def test_a_caller_that_leaves_an_asyncio_stream_leaves_no_reservation(
    router: warmroute.Router, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(monkeypatch)
    async with AsyncClient(f"127.0.0.1:{port}") as client, client.stream() as stream:
        asking = asyncio.create_task(stream.route(IDS))
        await asyncio.to_thread(late.came.wait)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert stats(router, "open") == [1]
        late.let_go.set()

        async def is_gone() -> bool:
            return stats(router, "open", "cancelled") == [0, 1]

        await until(is_gone, "the reservation that nobody has is gone")
        async with await stream.route(IDS) as reservation:
            assert stats(router, "open") == [1]
        assert not reservation.is_open


def test_a_caller_that_waits_no_longer_leaves_no_reservation(
    router: warmroute.Router, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(monkeypatch)
    with Client(f"127.0.0.1:{port}") as client, client.stream() as stream:
        with pytest.raises(DeadlineExceeded):
            stream.route(IDS, timeout_s=0.1)
        assert late.came.wait(10)
        assert stats(router, "open") == [1]
        late.let_go.set()
        wait_until(lambda: stats(router, "open", "cancelled") == [0, 1])
        with stream.route(IDS):
            assert stats(router, "open") == [1]


def test_what_was_reported_on_a_stream_arrives_before_its_end(router: warmroute.Router, port: int) -> None:
    with Client(f"127.0.0.1:{port}") as client:
        for _ in range(20):
            with client.stream() as stream:
                reservations = [stream.route(IDS) for _ in range(5)]
                for reservation in reservations:
                    reservation.close()
    wait_until(lambda: stats(router, "open") == [0])
    assert stats(router, "finished", "abandoned") == [100, 0]


async def test_an_asyncio_stream(router: warmroute.Router, port: int) -> None:
    async with AsyncClient(f"127.0.0.1:{port}") as client:
        async with client.stream() as stream:
            made = await asyncio.gather(*(stream.route(IDS, model="m") for _ in range(50)))
            assert stats(router, "open") == [50]
            for reservation in made[:20]:
                async with reservation:
                    await reservation.first_token()
                    await reservation.progress(4)
            with pytest.raises(InvalidRequest):
                await stream.route(b"123")
            assert stats(router, "open", "finished") == [30, 20]
            await made[20].close()

        async def is_gone() -> bool:
            return stats(router, "open", "finished", "abandoned") == [0, 21, 29]

        await until(is_gone, "the stream's reservations are gone")
        with pytest.raises(RouterUnreachable):
            await stream.route(IDS)


def test_generate_and_the_keys() -> None:
    sim = SimServer(model="sim", speed=1_000.0)
    router = warmroute.Router()
    router.add_worker("w", url=f"http://127.0.0.1:{sim.port}", models=["sim"])
    try:
        options = GrpcOptions(grpc_api_keys_env="TEST_KEYS")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TEST_KEYS", "secret")
            serving = warmroute.rpc.serve_in_thread(router, options=options)
            with serving as server:
                target = f"127.0.0.1:{server.port}"
                with Client(target) as stranger, pytest.raises(Unauthorized):
                    stranger.generate(IDS)
                with Client(target, api_key="secret") as client:
                    reply = client.generate(IDS, model="sim", max_output_tokens=5, return_token_ids=True)
                    with reply:
                        chunks = list(reply)
                    assert sum(len(chunk.token_ids) for chunk in chunks) == 5
                    assert (reply.worker, reply.finish_reason) == ("w", "length")
                    assert reply.usage is not None
                    assert reply.usage.completion_tokens == 5
                    assert client.generate(IDS, model="sim", max_output_tokens=3).text()
                    with client.generate(IDS, model="sim", max_output_tokens=100_000) as endless:
                        next(iter(endless))
                    wait_until(lambda: router.stats()["open"] == 0)
                    asyncio.run(generate(target))
    finally:
        sim.stop()
    with (
        warmroute.rpc.serve_in_thread(router) as server,
        Client(f"127.0.0.1:{server.port}") as client,
        pytest.raises(WorkerUnreachable),
    ):
        client.generate(IDS, model="sim", timeout_s=0.3)


async def generate(target: str) -> None:
    async with AsyncClient(target, api_key="secret") as client:
        async with await client.generate(IDS, model="sim", max_output_tokens=4) as reply:
            assert len([chunk async for chunk in reply]) == 4
        assert (reply.worker, reply.finish_reason) == ("w", "length")
        assert await (await client.generate("a text", model="sim", max_output_tokens=3)).text()
        reply = await client.generate(IDS, model="sim", max_output_tokens=100_000)
        reply.cancel()


def test_the_advice_of_an_error_is_followed_within_the_caller_s_time() -> None:
    patience = Patience(10)
    assert patience.pause(Saturated("full", 2.0)) == 2.0
    assert patience.attempt == 2
    assert patience.pause(TooManyReservations("full", 0.5)) == 0.5
    assert patience.pause(WorkerUnreachable("gone", 1.5)) == 1.5
    for error in (
        InvalidRequest("x"),
        DeadlineExceeded("x", 0.0),
        Saturated("full", 60.0),
        WorkerUnreachable("gone"),
    ):
        with pytest.raises(type(error)):
            patience.pause(error)
    with pytest.raises(Saturated):
        Patience(None).pause(Saturated("full", 2.0))


def test_a_keeper_renews_in_time() -> None:
    keeper = Keeper()
    timed, streamed = (
        Booked(pb.RouteResponse(reservation=n, lease_time_ms=ms)) for n, ms in ((1, 3_000), (2, 0))
    )
    keeper.told(timed, 100.0)
    keeper.told(streamed, 100.0)
    assert keeper.wait_s(100.0) == pytest.approx(1.0)
    assert keeper.due(100.5) == []
    assert keeper.due(101.0) == [timed]
    assert keeper.due(101.5) == []
    timed._ended("finished")
    keeper.told(timed, 102.5)
    assert keeper.due(200.0) == []
    assert keeper.wait_s(200.0) == pytest.approx(1.0)


def test_what_grpc_itself_says() -> None:
    def error(code: grpc.StatusCode) -> type[WarmrouteError]:
        return type(Fault(code, "x", ()).error())

    assert error(grpc.StatusCode.DEADLINE_EXCEEDED) is DeadlineExceeded
    assert error(grpc.StatusCode.UNAVAILABLE) is RouterUnreachable
    assert error(grpc.StatusCode.RESOURCE_EXHAUSTED) is InvalidRequest
    assert error(grpc.StatusCode.UNIMPLEMENTED) is WarmrouteError
    assert type(error_in(pb.Error(code=99, message="x"))) is WarmrouteError
    assert outcome_of(None) == "finished"
    assert request_of([1], model="m", max_output_tokens=None) == pb.RouteRequest(
        model="m", token_ids=b"\1\0\0\0"
    )
