"""Every error: its code, its reason, its details; on a stream as on a call."""

from __future__ import annotations

import contextlib
import json
import socket
from array import array
from typing import Any

import grpc
import grpc.aio
import pytest

import warmroute
from tests.contract.rpc.conftest import Endpoint, StartEndpoint
from tests.contract.rpc.faults import fault_of
from warmroute.errors import WarmrouteError
from warmroute.rpc import UpstreamOptions
from warmroute.v1 import router_pb2 as pb

IDS = array("I", range(1, 1_001)).tobytes()


def chat(**fields: Any) -> pb.OpenAiBody:
    return pb.OpenAiBody(json=json.dumps({"messages": [{"role": "user", "content": "x"}], **fields}).encode())


# A request, the field at fault, a part of the message.
INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({}, "prompt", "there is no prompt"),
    ({"token_ids": b""}, "prompt", "no token"),
    ({"token_list": pb.TokenList()}, "prompt", "no token"),
    ({"text": ""}, "prompt", "no text"),
    ({"token_ids": b"12345"}, "token_ids", "multiple of 4"),
    ({"openai": pb.OpenAiBody(json=b"{")}, "openai.json", "not valid JSON"),
    ({"openai": pb.OpenAiBody(json=b"{}")}, "openai.json", "messages"),
    ({"openai": pb.OpenAiBody(json=b'{"messages": "x"}')}, "openai.json", "messages"),
    ({"openai": pb.OpenAiBody(json=b"\xff")}, "openai.json", "UTF-8"),
    ({"openai": pb.OpenAiBody(endpoint=9, json=b"{}")}, "openai.endpoint", "no such endpoint"),  # type: ignore[arg-type]
    ({"openai": chat(model="a"), "model": "b"}, "model", "another model"),
    ({"openai": chat(), "model": "b"}, "model", "names no model"),
    ({"openai": chat(), "lora": "x"}, "lora", "OpenAI body"),
    ({"openai": chat(), "cache_salt": "x"}, "cache_salt", "OpenAI body"),
    ({"openai": chat(), "max_output_tokens": 5}, "max_output_tokens", "OpenAI body"),
    ({"token_ids": IDS, "model": "m" * 257}, "model", "257 bytes"),
    ({"token_ids": IDS, "tenant": "é" * 200}, "tenant", "400 bytes"),
    ({"token_ids": IDS, "lora": "m" * 257}, "lora", "257 bytes"),
    ({"token_ids": IDS, "cache_salt": "m" * 257}, "cache_salt", "257 bytes"),
    ({"token_ids": IDS, "session": "m" * 257}, "session", "257 bytes"),
    ({"token_ids": IDS, "request_id": "a b"}, "request_id", "letters"),
    ({"token_ids": IDS, "request_id": "a" * 129}, "request_id", "at most 128"),
    ({"token_ids": IDS, "avoid_workers": ["w"] * 257}, "avoid_workers", "257 names"),
    ({"token_ids": IDS, "max_alternatives": 17}, "max_alternatives", "at most 16"),
]


async def on_stream(endpoint: Endpoint, message: pb.RouteStreamRequest) -> pb.Error:
    call = endpoint.stub.RouteStream()
    await call.write(message)
    answer = await call.read()
    call.cancel()
    assert answer.WhichOneof("message") == "error"
    assert answer.id == message.id
    error: pb.Error = answer.error
    return error


@pytest.mark.parametrize(("fields", "field", "message"), INVALID)
async def test_a_request_that_cannot_be_read(
    endpoint: Endpoint, fields: dict[str, Any], field: str, message: str
) -> None:
    request = pb.RouteRequest(**fields)
    calls = [
        endpoint.stub.Route(request),
        endpoint.stub.Decide(pb.DecideRequest(request=request)),
        endpoint.stub.Explain(pb.ExplainRequest(request=request)),
    ]
    for call in calls:
        fault = await fault_of(call)
        assert (fault.code, fault.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
        assert fault.field == field
        assert message in fault.message
        assert fault.retry_s is None
    error = await on_stream(endpoint, pb.RouteStreamRequest(id=7, route=request))
    assert (error.code, error.reason, error.field) == (3, "INVALID_REQUEST", field)
    assert (error.message, error.HasField("retry_after_ms")) == (fault.message, False)
    assert endpoint.open == 0


async def test_messages_without_what_they_are_about(endpoint: Endpoint) -> None:
    for call in (endpoint.stub.Decide(pb.DecideRequest()), endpoint.stub.Explain(pb.ExplainRequest())):
        assert (await fault_of(call)).field == "request"
    assert (await on_stream(endpoint, pb.RouteStreamRequest(id=1))).field == "message"


async def test_bytes_that_are_no_message(endpoint: Endpoint) -> None:
    for name in ("Route", "Report", "Decide", "Explain"):
        call: Any = endpoint.channel.unary_unary(f"/warmroute.v1.Router/{name}")
        fault = await fault_of(call(b"\xff\xff\xff"))
        assert (fault.code, fault.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    stream: Any = endpoint.channel.stream_stream("/warmroute.v1.Router/RouteStream")()
    await stream.write(b"\xff\xff\xff")
    answer = pb.RouteStreamResponse.FromString(await stream.read())
    assert answer.error.reason == "INVALID_REQUEST"
    stream.cancel()
    for name in ("AddWorker", "DrainWorker", "RemoveWorker"):
        call = endpoint.channel.unary_unary(f"/warmroute.v1.Fleet/{name}")
        assert (await fault_of(call(b"\xff\xff\xff"))).reason == "INVALID_REQUEST"


async def both(
    endpoint: Endpoint, request: pb.RouteRequest, code: grpc.StatusCode, reason: str, *, retry: bool
) -> None:
    fault = await fault_of(endpoint.stub.Route(request))
    assert (fault.code, fault.reason, fault.retry_s is not None) == (code, reason, retry)
    error = await on_stream(endpoint, pb.RouteStreamRequest(id=1, route=request))
    assert (error.code, error.reason) == (code.value[0], reason)
    assert error.HasField("retry_after_ms") is retry


async def test_no_worker_may_take_it(start_endpoint: StartEndpoint) -> None:
    router = warmroute.Router()
    router.add_worker("w", models=["m"], max_model_len=500, max_requests=1)
    short = pb.RouteRequest(token_ids=IDS[:400], model="m")
    async with start_endpoint(router) as endpoint:
        await both(
            endpoint,
            pb.RouteRequest(token_ids=IDS, model="other"),
            grpc.StatusCode.NOT_FOUND,
            "MODEL_NOT_FOUND",
            retry=False,
        )
        await both(
            endpoint,
            pb.RouteRequest(token_ids=IDS, model="m"),
            grpc.StatusCode.INVALID_ARGUMENT,
            "CONTEXT_LENGTH_EXCEEDED",
            retry=False,
        )
        await endpoint.stub.Route(short)
        await both(endpoint, short, grpc.StatusCode.RESOURCE_EXHAUSTED, "SATURATED", retry=True)
        router.set_ready("w", False)
        await both(endpoint, short, grpc.StatusCode.UNAVAILABLE, "NO_ELIGIBLE_WORKER", retry=True)


async def test_the_retry_delay_of_saturation_is_spread(start_endpoint: StartEndpoint) -> None:
    router = warmroute.Router()
    router.add_worker("w", max_requests=1)
    async with start_endpoint(router) as endpoint:
        await endpoint.stub.Route(pb.RouteRequest(token_ids=IDS))
        delays = [
            (await fault_of(endpoint.stub.Route(pb.RouteRequest(token_ids=IDS)))).retry_s for _ in range(20)
        ]
        assert all(delay is not None and 1.0 <= delay <= 1.3 for delay in delays)
        assert len(set(delays)) > 1


async def test_reports_of_what_is_not_there(endpoint: Endpoint) -> None:
    response = await endpoint.stub.Route(pb.RouteRequest(token_ids=IDS))
    for number in (0, 1, 2**64 - 1, response.reservation ^ (1 << 40)):
        fault = await fault_of(endpoint.stub.Report(pb.ReportRequest(reservation=number)))
        assert (fault.code, fault.reason) == (grpc.StatusCode.NOT_FOUND, "RESERVATION_NOT_FOUND")
        assert fault.field == "reservation"
    report = pb.ReportRequest(reservation=response.reservation, ended=pb.Ended())
    assert (await fault_of(endpoint.stub.Report(report))).field == "ended.outcome"
    assert endpoint.open == 1
    error = await on_stream(endpoint, pb.RouteStreamRequest(id=2, report=pb.ReportRequest(reservation=1)))
    assert (error.code, error.reason) == (5, "RESERVATION_NOT_FOUND")


async def test_as_many_reservations_as_may_be(start_endpoint: StartEndpoint) -> None:
    async with start_endpoint(grpc_max_reservations=3) as endpoint:
        request = pb.RouteRequest(token_ids=IDS)
        opened = [await endpoint.stub.Route(request) for _ in range(3)]
        await both(endpoint, request, grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_RESERVATIONS", retry=True)
        assert endpoint.open == 3
        ended = pb.Ended(outcome=pb.OUTCOME_FINISHED)
        await endpoint.stub.Report(pb.ReportRequest(reservation=opened[0].reservation, ended=ended))
        await endpoint.stub.Route(request)


async def test_a_message_beyond_the_limit(start_endpoint: StartEndpoint) -> None:
    async with start_endpoint(grpc_max_message_bytes=2_000) as endpoint:
        await endpoint.stub.Route(pb.RouteRequest(token_ids=IDS[:1_000]))
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await endpoint.stub.Route(pb.RouteRequest(token_ids=IDS))
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_as_many_calls_as_may_be(start_endpoint: StartEndpoint) -> None:
    async with start_endpoint(grpc_max_calls=2) as endpoint:
        streams = [endpoint.stub.RouteStream() for _ in range(2)]
        for stream in streams:
            await stream.write(pb.RouteStreamRequest(id=1))
            await stream.read()
        fault = await fault_of(endpoint.stub.Route(pb.RouteRequest(token_ids=IDS)))
        assert (fault.code, fault.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_CALLS")
        assert fault.retry_s == 1.0
        for stream in streams:
            stream.cancel()


async def test_a_fault_of_ours_says_nothing_of_itself(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from warmroute.rpc import calls  # noqa: PLC0415 - what is broken here

    def broken(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(calls.Calls, "_admit", broken)
    fault = await fault_of(endpoint.stub.Route(pb.RouteRequest(token_ids=IDS)))
    assert (fault.code, fault.message) == (grpc.StatusCode.INTERNAL, "internal error")


def test_every_error_has_a_code_of_grpc() -> None:
    from warmroute.rpc.status import reason_of, status_of  # noqa: PLC0415

    def below(cls: type[WarmrouteError]) -> list[type[WarmrouteError]]:
        return [cls, *(each for sub in cls.__subclasses__() for each in below(sub))]

    for cls in below(WarmrouteError):
        if cls.grpc_code is not None:
            status = status_of(cls("what is wrong"))
            assert status.code == grpc.StatusCode[cls.grpc_code].value[0] or cls.__name__ == "WorkerRefused"
            assert reason_of(cls("x")).isupper()


async def test_a_worker_that_takes_no_connection_is_replaced(start_endpoint: StartEndpoint) -> None:
    router = warmroute.Router()
    upstream = UpstreamOptions.of({"connect_timeout_ms": 100})
    with contextlib.ExitStack() as stack:
        for name in ("w1", "w2"):
            router.add_worker(name, url=f"http://127.0.0.1:{_jammed(stack)}")
        async with start_endpoint(router, upstream=upstream) as endpoint:
            asked = pb.GenerateRequest(request=pb.RouteRequest(token_ids=IDS))
            fault = await fault_of(endpoint.stub.Generate(asked).read())
            assert (fault.code, fault.reason) == (grpc.StatusCode.UNAVAILABLE, "WORKER_UNREACHABLE")
            assert fault.retry_s == 1.0
            assert endpoint.server.stats()["retries"] == 1
            assert endpoint.router.stats()["failed"] == 2


def _jammed(stack: contextlib.ExitStack) -> int:
    """A port whose queue of connections is full: what comes is dropped without a word."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
    port: int = listener.getsockname()[1]
    with contextlib.suppress(TimeoutError):
        while True:
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=0.2))
    return port
