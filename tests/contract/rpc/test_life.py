"""Deadlines, cancelling, drain, health, reflection."""

from __future__ import annotations

import asyncio
import threading
import time
from array import array
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

import warmroute
import warmroute.rpc
from tests.contract.rpc.conftest import Endpoint, StartEndpoint
from tests.contract.rpc.faults import fault_of, read
from tests.support import stubs
from tests.support.process import free_port
from tests.support.waiting import until
from warmroute.config import GrpcOptions
from warmroute.native import Prompter, RetryBudget, RpcService
from warmroute.rpc.fleet import OperatorPort
from warmroute.rpc.members import Members
from warmroute.rpc.server import Server
from warmroute.sim import TOKENIZER
from warmroute.v1 import fleet_pb2
from warmroute.v1 import router_pb2 as pb

ROUTE = pb.RouteRequest(token_ids=array("I", range(1, 1_001)).tobytes())


async def test_a_deadline_that_passes_before_the_decision_books_nothing(endpoint: Endpoint) -> None:
    failed: list[grpc.StatusCode] = []

    def call() -> None:
        with grpc.insecure_channel(f"127.0.0.1:{endpoint.port}") as channel:
            stub = stubs.router(channel)
            grpc.channel_ready_future(channel).result(10)
            ready.set()
            blocked.wait()
            try:
                stub.Route(ROUTE, timeout=0.1)
            except grpc.RpcError as error:
                failed.append(error.code())

    ready, blocked = threading.Event(), threading.Event()
    thread = threading.Thread(target=call)
    thread.start()
    await asyncio.to_thread(ready.wait)
    # The router's loop does nothing while the call comes, waits and runs out of its time.
    blocked.set()
    time.sleep(0.4)  # noqa: ASYNC251 - that is the point
    await asyncio.to_thread(thread.join)
    assert failed == [grpc.StatusCode.DEADLINE_EXCEEDED]
    # Whatever was queued in the loop has had its turn once another call was answered.
    await endpoint.stub.Decide(pb.DecideRequest(request=ROUTE))
    assert endpoint.open == 0
    assert endpoint.router.stats()["decisions"] == {"warm": 0, "spill": 0, "cold": 0, "balance": 0}


async def test_a_caller_that_leaves_while_its_prompt_is_encoded_books_nothing(
    start_endpoint: StartEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_endpoint(prompter=Prompter(str(TOKENIZER))) as endpoint:
        text = "an uncommon text, " * 4_000
        response = await endpoint.stub.Route(pb.RouteRequest(text=text))
        assert response.decision.rung == pb.RUNG_LOCAL
        assert endpoint.open == 1
        began, end = threading.Event(), threading.Event()
        to_thread = asyncio.to_thread

        async def slow(call: Any, *arguments: Any) -> Any:
            def wait() -> Any:
                result = call(*arguments)
                began.set()
                end.wait()
                return result

            return await to_thread(wait)

        monkeypatch.setattr("warmroute.rpc.router.asyncio.to_thread", slow)
        call = endpoint.stub.Route(pb.RouteRequest(text=text + "and more"))
        await to_thread(began.wait)
        call.cancel()

        async def is_gone() -> bool:
            return ("Route", "CANCELLED") in endpoint.server.stats()["calls"]

        await until(is_gone, "the router knows that the caller has left")
        end.set()
        await endpoint.stub.Decide(pb.DecideRequest(request=ROUTE))
        assert endpoint.open == 1


async def test_a_long_text_on_a_stream_is_encoded_elsewhere(start_endpoint: StartEndpoint) -> None:
    async with start_endpoint(prompter=Prompter(str(TOKENIZER))) as endpoint:
        stream = endpoint.stub.RouteStream()
        texts = ["a text, " * 4_000, "short", "a text, " * 5_000]
        for number, text in enumerate(texts):
            await stream.write(pb.RouteStreamRequest(id=number, route=pb.RouteRequest(text=text)))
        answers = [await stream.read() for _ in texts]
        assert [answer.id for answer in answers] == [0, 1, 2]
        assert {answer.route.decision.rung for answer in answers} == {pb.RUNG_LOCAL}
        stream.cancel()


def server_of(router: warmroute.Router, **options: Any) -> Server:
    operator: OperatorPort = Members(router)
    return Server(router, Prompter(), operator, GrpcOptions(grpc_port=0, **options), is_ready=lambda: True)


async def test_a_drain_takes_reports_and_nothing_new() -> None:
    router = warmroute.Router()
    router.add_worker("w", url="http://10.0.0.1:8000")
    server = server_of(router)
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = stubs.router(channel)
        busy, idle = stub.RouteStream(), stub.RouteStream()
        await busy.write(pb.RouteStreamRequest(id=1, route=ROUTE))
        number = (await busy.read()).route.reservation
        await idle.write(pb.RouteStreamRequest(id=1))
        await idle.read()
        health = stubs.health(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await health.read()).status == health_pb2.HealthCheckResponse.SERVING
        watch = stubs.fleet(channel).WatchWorkers(fleet_pb2.WatchWorkersRequest())
        await watch.read()
        draining = asyncio.create_task(server.drain(30))
        # A stream without a reservation is ended, with the reason.
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await idle.read()
        assert (read(raised.value).reason, raised.value.code()) == ("DRAINING", grpc.StatusCode.UNAVAILABLE)
        # One with a reservation takes its reports.
        await busy.write(pb.RouteStreamRequest(id=2, route=ROUTE))
        refused = await busy.read()
        assert (refused.error.reason, refused.error.code) == ("DRAINING", 14)
        assert refused.error.retry_after_ms > 0
        ended = pb.Ended(outcome=pb.OUTCOME_FINISHED)
        report = pb.ReportRequest(reservation=number, ended=ended)
        await busy.write(pb.RouteStreamRequest(id=3, report=report))
        assert (await busy.read()).WhichOneof("message") == "report"
        assert await busy.code() is grpc.StatusCode.UNAVAILABLE
        # Whatever watches does not keep the router: health is still watched, and so was the fleet.
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await watch.read()
        assert read(raised.value).reason == "DRAINING"
        async with asyncio.timeout(10):
            assert await draining
        health.cancel()
        assert (router.stats()["finished"], router.stats()["open"]) == (1, 0)


async def test_a_drain_ends_in_time(start_endpoint: StartEndpoint) -> None:
    router = warmroute.Router()
    router.add_worker("w")
    server = server_of(router)
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stream = stubs.router(channel).RouteStream()
        await stream.write(pb.RouteStreamRequest(id=1, route=ROUTE))
        await stream.read()
        assert not await server.drain(0.2)
        assert router.stats()["open"] == 0
        with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
            await stubs.router(channel).Route(ROUTE, timeout=5)


async def test_health_follows_readiness(start_endpoint: StartEndpoint) -> None:
    router = warmroute.Router()
    async with start_endpoint(router) as endpoint:
        stub = stubs.health(endpoint.channel)

        async def status(service: str) -> Any:
            return (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status

        services = ("", "warmroute.v1.Router", "warmroute.v1.Fleet")
        not_serving, serving = (
            health_pb2.HealthCheckResponse.NOT_SERVING,
            health_pb2.HealthCheckResponse.SERVING,
        )
        assert {await status(service) for service in services} == {not_serving}
        router.add_worker("w")

        async def all_serve() -> bool:
            return {await status(service) for service in services} == {serving}

        await until(all_serve, "the services are healthy")
        router.set_ready("w", False)

        async def none_serves() -> bool:
            return {await status(service) for service in services} == {not_serving}

        await until(none_serves, "the services are not healthy")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await status("other")
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND


async def test_reflection_tells_of_every_service(endpoint: Endpoint) -> None:
    stub = stubs.reflection(endpoint.channel)
    call = stub.ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    listed = {service.name for service in (await call.read()).list_services_response.service}
    assert {"warmroute.v1.Router", "warmroute.v1.Fleet", "grpc.health.v1.Health"} <= listed
    symbol = reflection_pb2.ServerReflectionRequest(file_containing_symbol="warmroute.v1.Router")
    await call.write(symbol)
    assert (await call.read()).file_descriptor_response.file_descriptor_proto
    call.cancel()


async def test_an_unknown_method(endpoint: Endpoint) -> None:
    call: Any = endpoint.channel.unary_unary("/warmroute.v1.Router/Guess")
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call(b"")
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_program_without_a_loop_serves_on_a_thread() -> None:
    router = warmroute.Router()
    router.add_worker("w", url="http://10.0.0.1:8000")
    with warmroute.rpc.serve_in_thread(router) as server:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            response = stubs.router(channel).Route(ROUTE, timeout=10)
        assert response.decision.worker.name == "w"
        taken = warmroute.rpc.serve_in_thread(router, port=server.port)
        with pytest.raises(warmroute.errors.ConfigError, match="grpc_port"), taken:
            pass


def test_a_thread_that_fails_says_so_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_server: Server, _timeout_s: float) -> bool:
        raise ValueError("the drain failed")

    monkeypatch.setattr(Server, "drain", fail)
    with (
        pytest.raises(ValueError, match="the drain failed"),
        warmroute.rpc.serve_in_thread(warmroute.Router(), options=GrpcOptions(grpc_host="localhost")) as one,
    ):
        assert one.port > 0


async def test_the_options_say_where_to_listen() -> None:
    port = free_port()
    async with warmroute.rpc.serve(warmroute.Router(), options=GrpcOptions(grpc_port=port)) as server:
        assert server.port == port


def test_the_service_counts_later_attempts() -> None:
    router = warmroute.Router()
    router.add_worker("w")
    budget = RetryBudget(retry_share=0.1, retry_floor=1.0)
    service = RpcService(router, Prompter(), budget, max_reservations=10, lease_time_s=60)
    for attempt in (0, 1, 2, 3):
        service.route(pb.RouteRequest(token_ids=bytes(400), attempt=attempt).SerializeToString())
    assert service.stats()["later_attempts"] == 2


async def test_faults_can_be_read_by_hand(endpoint: Endpoint) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await endpoint.stub.Route(pb.RouteRequest())
    assert read(raised.value) == await fault_of(endpoint.stub.Route(pb.RouteRequest()))


async def test_a_fault_of_ours_does_not_end_the_health(
    start_endpoint: StartEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_endpoint(warmroute.Router()) as endpoint:
        stub = stubs.health(endpoint.channel)

        async def failed() -> bool:
            return endpoint.server.failures()["grpc_health"] > 0

        async def serves() -> bool:
            answer = await stub.Check(health_pb2.HealthCheckRequest())
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

        with monkeypatch.context() as patch:
            patch.setattr(endpoint.server._health, "_is_ready", None)
            await until(failed, "the look at readiness fails")
        assert not await serves()
        endpoint.router.add_worker("w")
        await until(serves, "the service is healthy")
