"""`warmroute.v1.Fleet` beside an embedded router."""

from __future__ import annotations

from array import array
from typing import Any

import grpc
import pytest

from tests.contract.rpc.conftest import Endpoint
from tests.contract.rpc.faults import fault_of
from warmroute.v1 import fleet_pb2 as fb
from warmroute.v1 import router_pb2 as pb

ADDED = fb.AddWorkerRequest(
    url="http://10.0.0.3:8000/",
    name="w3",
    models=["m", "n"],
    kv_blocks=100,
    block_size=16,
    max_model_len=4_096,
    max_requests=7,
    data_parallel_rank=0,
)


async def test_every_field_of_a_worker(endpoint: Endpoint) -> None:
    added = (await endpoint.fleet.AddWorker(ADDED)).worker
    assert added.load == fb.WorkerLoad()
    added.ClearField("load")
    assert added == fb.Worker(
        name="w3",
        url="http://10.0.0.3:8000",
        state=fb.WORKER_STATE_READY,
        models=["m", "n"],
        kv_blocks=100,
        block_size=16,
        max_model_len=4_096,
        max_requests=7,
        data_parallel_rank=0,
    )
    await endpoint.stub.Route(pb.RouteRequest(token_ids=array("I", range(1, 101)).tobytes(), model="m"))
    listed = (await endpoint.fleet.ListWorkers(fb.ListWorkersRequest())).workers
    assert [worker.name for worker in listed] == ["w1", "w2", "w3"]
    loads = [worker.load for worker in listed if worker.load.requests]
    assert [(load.prefilling, load.queued_tokens, load.context_tokens) for load in loads] == [(1, 100, 100)]
    assert loads[0].wait_seconds > 0
    assert loads[0].predicted_blocks == 6
    assert loads[0].active_blocks > 0
    assert not listed[0].HasField("max_model_len")


async def test_a_worker_without_a_name_has_that_of_its_address(endpoint: Endpoint) -> None:
    added = await endpoint.fleet.AddWorker(fb.AddWorkerRequest(url="http://10.0.0.3:8000"))
    assert added.worker.name == "10.0.0.3:8000"
    assert not added.worker.models


async def test_draining_and_removing(endpoint: Endpoint) -> None:
    for _ in range(2):
        drained = await endpoint.fleet.DrainWorker(fb.DrainWorkerRequest(name="w1"))
        assert drained.worker.state == fb.WORKER_STATE_DRAINING
    route = pb.RouteRequest(token_ids=bytes(400))
    assert (await endpoint.stub.Route(route)).decision.worker.name == "w2"
    await endpoint.fleet.RemoveWorker(fb.RemoveWorkerRequest(name="w2"))
    assert (await fault_of(endpoint.stub.Route(route))).reason == "NO_ELIGIBLE_WORKER"
    for call in (
        endpoint.fleet.DrainWorker(fb.DrainWorkerRequest(name="w2")),
        endpoint.fleet.RemoveWorker(fb.RemoveWorkerRequest(name="w2")),
    ):
        fault = await fault_of(call)
        assert (fault.code, fault.reason) == (grpc.StatusCode.NOT_FOUND, "WORKER_NOT_FOUND")


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"url": ""}, "url"),
        ({"url": "ftp://10.0.0.3"}, "url"),
        ({"url": "http://user:secret@10.0.0.3"}, "url"),
        ({"url": "http://10.0.0.3/v1"}, "url"),
        ({"name": "a name"}, "name"),
        ({"name": "n" * 65}, "name"),
        ({"kv_blocks": 0}, "kv_blocks"),
        ({"max_requests": 0}, "max_requests"),
        ({"block_size": 32}, "block_size"),
        ({"block_size": 65_537}, "block_size"),
        ({"max_model_len": 2**31}, "max_model_len"),
        ({"data_parallel_rank": 65_536}, "data_parallel_rank"),
    ],
)
async def test_a_worker_that_cannot_be(endpoint: Endpoint, changed: dict[str, Any], field: str) -> None:
    request = fb.AddWorkerRequest()
    request.CopyFrom(ADDED)
    for name, value in changed.items():
        setattr(request, name, value)
    fault = await fault_of(endpoint.fleet.AddWorker(request))
    assert (fault.code, fault.reason, fault.field) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "INVALID_REQUEST",
        field,
    )
    assert "secret" not in fault.message
    assert len(endpoint.router.workers()) == 2


async def test_a_name_that_is_taken(endpoint: Endpoint) -> None:
    request = fb.AddWorkerRequest(url="http://10.0.0.9:8000", name="w1")
    fault = await fault_of(endpoint.fleet.AddWorker(request))
    assert (fault.code, fault.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "WORKER_CONFLICT")


async def test_watching(endpoint: Endpoint) -> None:
    watch = endpoint.fleet.WatchWorkers(fb.WatchWorkersRequest())
    first = await watch.read()
    assert [worker.name for worker in first.workers.workers] == ["w1", "w2"]
    endpoint.router.set_ready("w2", False)
    event = await watch.read()
    assert (event.changed.name, event.changed.state) == ("w2", fb.WORKER_STATE_DOWN)
    # Load alone is no change.
    await endpoint.stub.Route(pb.RouteRequest(token_ids=bytes(400)))
    await endpoint.fleet.AddWorker(ADDED)
    assert (await watch.read()).changed.name == "w3"
    await endpoint.fleet.DrainWorker(fb.DrainWorkerRequest(name="w3"))
    assert (await watch.read()).changed.state == fb.WORKER_STATE_DRAINING
    await endpoint.fleet.RemoveWorker(fb.RemoveWorkerRequest(name="w3"))
    assert (await watch.read()).removed == "w3"
    watch.cancel()
