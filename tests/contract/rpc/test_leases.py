"""What ends a reservation that nobody reports: its lease time, its stream, its client's death."""

from __future__ import annotations

import asyncio
import sys
from array import array
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.contract.rpc.conftest import Endpoint, StartEndpoint
from tests.contract.rpc.faults import fault_of
from tests.support.waiting import until
from warmroute.v1 import router_pb2 as pb

IDS = array("I", range(1, 1_001)).tobytes()
ROUTE = pb.RouteRequest(token_ids=IDS)

# Makes 100 reservations and says so, then waits to be killed.
CLIENT = """
import sys, time
import grpc
from warmroute.v1 import router_pb2 as pb, router_pb2_grpc
stub = router_pb2_grpc.RouterStub(grpc.insecure_channel(sys.argv[1]))
route = pb.RouteRequest(token_ids=bytes(4_000))
if sys.argv[2] == "stream":
    def requests():
        for number in range(100):
            yield pb.RouteStreamRequest(id=number, route=route)
        time.sleep(1_000)
    answers = stub.RouteStream(requests())
    made = [next(answers).route.reservation for _ in range(100)]
else:
    made = [stub.Route(route).reservation for _ in range(100)]
print(len(set(made)), flush=True)
time.sleep(1_000)
"""


def is_idle(endpoint: Endpoint) -> bool:
    """Whether every worker's load is nil."""
    loads = ("requests", "prefilling", "queued_tokens", "context_tokens", "active_blocks", "wait_seconds")
    return all(worker[load] == 0 for worker in endpoint.router.stats()["workers"] for load in loads)


async def gone(endpoint: Endpoint, seconds: float) -> None:
    async def holds() -> bool:
        return endpoint.open == 0 and is_idle(endpoint)

    await until(holds, "the load is gone", seconds)


async def test_a_reservation_ends_with_its_lease_time_and_is_counted(start_endpoint: StartEndpoint) -> None:
    async with start_endpoint(grpc_lease_time_ms=300) as endpoint:
        response = await endpoint.stub.Route(ROUTE)
        assert (response.lease_time_ms, endpoint.open) == (300, 1)
        await gone(endpoint, 5)
        assert endpoint.router.stats()["abandoned"] == 1
        fault = await fault_of(endpoint.stub.Report(pb.ReportRequest(reservation=response.reservation)))
        assert fault.reason == "RESERVATION_NOT_FOUND"


async def test_lease_times_that_run_out_are_said_once_in_an_interval(
    start_endpoint: StartEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    async with start_endpoint(grpc_lease_time_ms=100) as endpoint:
        for _ in range(3):
            await endpoint.stub.Route(ROUTE)
            await gone(endpoint, 5)
    assert endpoint.server.stats()["reservations"]["expired"] == 3
    assert sum("lease time" in record.message for record in caplog.records) == 1


async def test_every_report_renews_the_lease_time(start_endpoint: StartEndpoint) -> None:
    async with start_endpoint(grpc_lease_time_ms=1_000) as endpoint:
        kept = (await endpoint.stub.Route(ROUTE)).reservation
        left = (await endpoint.stub.Route(ROUTE)).reservation
        reports = (
            pb.ReportRequest(reservation=kept),
            pb.ReportRequest(reservation=kept, first_token=pb.FirstToken()),
            pb.ReportRequest(reservation=kept, progress=pb.Progress(output_tokens=1)),
        )

        async def only_one() -> bool:
            for report in reports:
                assert (await endpoint.stub.Report(report)).lease_time_ms == 1_000
            return endpoint.open == 1

        await until(only_one, "the one that is not reported has ended")
        fault = await fault_of(endpoint.stub.Report(pb.ReportRequest(reservation=left)))
        assert fault.reason == "RESERVATION_NOT_FOUND"
        assert (await endpoint.stub.Report(reports[0])).lease_time_ms == 1_000


@pytest.mark.parametrize("how", ["cancel", "done"])
async def test_reservations_of_a_stream_end_with_it(endpoint: Endpoint, how: str) -> None:
    stream = endpoint.stub.RouteStream()
    for number in range(10):
        await stream.write(pb.RouteStreamRequest(id=number, route=ROUTE))
    answers = [await stream.read() for _ in range(10)]
    assert [answer.id for answer in answers] == list(range(10))
    assert {answer.route.lease_time_ms for answer in answers} == {0}
    assert endpoint.open == 10
    ended = pb.Ended(outcome=pb.OUTCOME_FINISHED)
    for answer in answers[:4]:
        report = pb.ReportRequest(reservation=answer.route.reservation, ended=ended)
        await stream.write(pb.RouteStreamRequest(id=99, report=report))
        assert (await stream.read()).WhichOneof("message") == "report"
    assert endpoint.open == 6
    if how == "cancel":
        stream.cancel()
    else:
        await stream.done_writing()
    await gone(endpoint, 2)
    stats = endpoint.router.stats()
    assert (stats["finished"], stats["abandoned"]) == (4, 6)


async def test_a_reservation_may_be_reported_from_elsewhere(endpoint: Endpoint) -> None:
    stream = endpoint.stub.RouteStream()
    await stream.write(pb.RouteStreamRequest(id=1, route=ROUTE))
    of_stream = (await stream.read()).route.reservation
    assert (await endpoint.stub.Report(pb.ReportRequest(reservation=of_stream))).lease_time_ms == 0
    of_call = (await endpoint.stub.Route(ROUTE)).reservation
    ended = pb.Ended(outcome=pb.OUTCOME_FINISHED)
    for number in (of_call, of_stream):
        report = pb.ReportRequest(reservation=number, ended=ended)
        await stream.write(pb.RouteStreamRequest(id=2, report=report))
        assert (await stream.read()).report.lease_time_ms == 0
    assert endpoint.open == 0
    stream.cancel()


async def _killed(endpoint: Endpoint, how: str) -> None:
    """Has a client make 100 reservations, and kills it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, f"127.0.0.1:{endpoint.port}", how, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"100\n"
        assert endpoint.open == 100
    finally:
        process.kill()
        await process.wait()


async def test_a_killed_client_s_load_is_gone_at_once_with_its_stream(endpoint: Endpoint) -> None:
    await _killed(endpoint, "stream")
    await gone(endpoint, 2)
    assert endpoint.router.stats()["abandoned"] == 100


async def test_a_killed_client_s_load_is_gone_within_the_lease_time(start_endpoint: StartEndpoint) -> None:
    async with start_endpoint(grpc_lease_time_ms=4_000) as endpoint:
        await _killed(endpoint, "route")
        assert endpoint.open == 100
        await gone(endpoint, 6)
        assert endpoint.router.stats()["abandoned"] == 100


async def test_ten_thousand_unreported_reservations(start_endpoint: StartEndpoint) -> None:
    async with start_endpoint(grpc_lease_time_ms=60_000, grpc_max_reservations=10_000) as endpoint:
        at_once = asyncio.Semaphore(64)

        async def route(number: int) -> int:
            async with at_once:
                ids = array("I", range(number, number + 100)).tobytes()
                response = await endpoint.stub.Route(pb.RouteRequest(token_ids=ids))
                reservation: int = response.reservation
                return reservation

        numbers = await asyncio.gather(*(route(number) for number in range(10_000)))
        assert len(set(numbers)) == 10_000
        assert endpoint.open == 10_000
        assert (await fault_of(endpoint.stub.Route(ROUTE))).reason == "TOO_MANY_RESERVATIONS"
        # Any of them is found, and the place of one that ended is given to another.
        ended = pb.Ended(outcome=pb.OUTCOME_FINISHED)
        for number in numbers[:5_000]:
            await endpoint.stub.Report(pb.ReportRequest(reservation=number, ended=ended))
        assert endpoint.open == 5_000
        assert (await endpoint.stub.Route(ROUTE)).reservation not in numbers


async def test_ten_thousand_unreported_reservations_expire(start_endpoint: StartEndpoint) -> None:
    async with start_endpoint(grpc_lease_time_ms=200) as endpoint:
        route: Any = endpoint.channel.unary_unary("/warmroute.v1.Router/Route")
        data = pb.RouteRequest(token_ids=IDS[:400]).SerializeToString()
        for _ in range(100):
            await asyncio.gather(*(route(data) for _ in range(100)))
        await gone(endpoint, 10)
        assert endpoint.router.stats()["abandoned"] == 10_000


async def test_a_stream_that_the_client_breaks_takes_no_reports_with_it(endpoint: Endpoint) -> None:
    call: Any = endpoint.stub.RouteStream()
    await call.write(pb.RouteStreamRequest(id=1, route=ROUTE))
    number = (await call.read()).route.reservation
    call.cancel()
    await gone(endpoint, 2)
    fault = await fault_of(endpoint.stub.Report(pb.ReportRequest(reservation=number)))
    assert fault.code is grpc.StatusCode.NOT_FOUND


async def test_a_fault_of_ours_does_not_end_the_sweep(
    start_endpoint: StartEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_endpoint(grpc_lease_time_ms=100) as endpoint:
        await endpoint.stub.Route(ROUTE)

        async def failed() -> bool:
            return endpoint.server.failures()["grpc_leases"] > 0

        with monkeypatch.context() as patch:
            patch.setattr(endpoint.server, "_service", None)
            await until(failed, "the sweep fails")
        await gone(endpoint, 10)
