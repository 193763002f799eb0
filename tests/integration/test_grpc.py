"""The gRPC endpoint of `warmroute serve`: the fleet behind it, its keys, its end."""

from __future__ import annotations

import asyncio
from array import array
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2

from tests.contract.rpc.faults import fault_of
from tests.integration.conftest import StartRouter
from tests.support import stubs
from tests.support.fake_worker import FakeWorker
from tests.support.process import free_port
from tests.support.waiting import until
from warmroute.v1 import fleet_pb2 as fb
from warmroute.v1 import router_pb2 as pb

ROUTE = pb.RouteRequest(token_ids=array("I", range(1, 101)).tobytes(), model="tiny")
KEY = "a-key-that-is-secret"


async def test_the_fleet_over_grpc(start_router: StartRouter, pair: list[FakeWorker]) -> None:
    port = free_port()
    first, second = pair
    async with (
        start_router(first, flags=("--grpc-port", str(port))) as router,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        fleet, stub = stubs.fleet(channel), stubs.router(channel)
        await router.sees_ready(1)
        watch = fleet.WatchWorkers(fb.WatchWorkersRequest())
        assert len((await watch.read()).workers.workers) == 1
        added = (await fleet.AddWorker(fb.AddWorkerRequest(url=second.url, name="second"))).worker
        assert (added.name, added.state) == ("second", fb.WORKER_STATE_DOWN)
        # It is taken in once it answers, and the watcher is told.
        event = await watch.read()
        while event.changed.state != fb.WORKER_STATE_READY:
            event = await watch.read()
        assert (event.changed.name, event.changed.models, event.changed.max_model_len) == (
            "second",
            ["tiny"],
            8192,
        )
        listed = (await fleet.ListWorkers(fb.ListWorkersRequest())).workers
        assert {worker.url for worker in listed} == {first.url, second.url}
        other = fb.AddWorkerRequest(url="http://127.0.0.1:9", name="second")
        assert (await fault_of(fleet.AddWorker(other))).reason == "WORKER_CONFLICT"
        booked = await stub.Route(pb.RouteRequest(token_ids=ROUTE.token_ids, avoid_workers=[listed[0].name]))
        assert booked.decision.worker.name == "second"
        drained = await fleet.DrainWorker(fb.DrainWorkerRequest(name="second"))
        assert drained.worker.state == fb.WORKER_STATE_DRAINING
        assert (await stub.Route(ROUTE)).decision.worker.url == first.url
        await fleet.RemoveWorker(fb.RemoveWorkerRequest(name="second"))
        while not event.removed:
            event = await watch.read()
        assert event.removed == "second"
        watch.cancel()


async def test_a_key_is_needed_and_never_logged(
    start_router: StartRouter, worker: FakeWorker, tmp_path: Path
) -> None:
    port = free_port()
    keys = tmp_path / "keys"
    keys.write_text(KEY)
    flags = ("--grpc-port", str(port), "--grpc-api-keys-file", str(keys), "--log-level", "debug")
    async with (
        start_router(worker, flags=flags) as router,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        stub = stubs.router(channel)
        await router.sees_ready(1)
        assert (await fault_of(stub.Route(ROUTE))).code is grpc.StatusCode.UNAUTHENTICATED
        wrong = (("x-api-key", KEY + "-not"),)
        assert KEY not in (await fault_of(stub.Route(ROUTE, metadata=wrong))).message
        assert (await stub.Route(ROUTE, metadata=(("x-api-key", KEY),))).reservation
        assert KEY not in router.log_text()
        assert KEY not in (await router.get("/metrics")).body.decode()


async def test_sigterm_drains(start_router: StartRouter, worker: FakeWorker) -> None:
    port = free_port()
    async with (
        start_router(worker, flags=("--grpc-port", str(port))) as router,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        stub, health = stubs.router(channel), stubs.health(channel)
        await router.sees_ready(1)

        async def is_serving() -> bool:
            status = (await health.Check(health_pb2.HealthCheckRequest())).status
            return bool(status == health_pb2.HealthCheckResponse.SERVING)

        await until(is_serving, "health follows readiness")
        stream = stub.RouteStream()
        await stream.write(pb.RouteStreamRequest(id=1, route=ROUTE))
        reservation = (await stream.read()).route.reservation
        router.terminate()

        async def refuses() -> bool:
            await stream.write(pb.RouteStreamRequest(id=2, route=ROUTE))
            answer = await stream.read()
            if answer.WhichOneof("message") == "route":
                ended = pb.Ended(outcome=pb.OUTCOME_ABANDONED)
                report = pb.ReportRequest(reservation=answer.route.reservation, ended=ended)
                await stream.write(pb.RouteStreamRequest(id=3, report=report))
                await stream.read()
                return False
            return bool(answer.error.reason == "DRAINING")

        await until(refuses, "the router takes nothing new")
        assert router.process.returncode is None
        ended = pb.Ended(outcome=pb.OUTCOME_FINISHED)
        report = pb.ReportRequest(reservation=reservation, ended=ended)
        await stream.write(pb.RouteStreamRequest(id=4, report=report))
        assert (await stream.read()).WhichOneof("message") == "report"
        assert await stream.code() is grpc.StatusCode.UNAVAILABLE
        assert await router.wait() == 0


async def test_a_port_that_is_taken_is_a_fault_of_the_configuration(
    start_router: StartRouter, worker: FakeWorker
) -> None:
    port = free_port()
    async with start_router(worker, flags=("--grpc-port", str(port))):
        second = start_router(worker, flags=("--grpc-port", str(port)))
        with pytest.raises(AssertionError, match="exited with 2"):
            async with second:
                await asyncio.sleep(0)
