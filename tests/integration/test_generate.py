"""`Generate` through `warmroute serve`: to scripted workers and simulated ones, and what comes of faults."""

from __future__ import annotations

import asyncio
import contextlib
import json
from array import array
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.contract.rpc.faults import Fault, read
from tests.integration.conftest import StartRouter
from tests.support import stubs
from tests.support.fake_worker import SSE, Exchange, FakeWorker
from tests.support.process import Router, free_port
from tests.support.waiting import until
from warmroute.native import SimServer
from warmroute.sim import TOKENIZER
from warmroute.v1 import router_pb2 as pb

IDS = array("I", range(1, 101)).tobytes()


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def chunk(text: str, finish: str | None = None, **fields: Any) -> bytes:
    return event(choices=[{"index": 0, "text": text, "finish_reason": finish, **fields}])


USAGE = event(
    choices=[],
    usage={"prompt_tokens": 100, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}},
)
DONE = b"data: [DONE]\n\n"


async def reply(exchange: Exchange, *parts: bytes) -> None:
    await exchange.head(200, SSE, ("transfer-encoding", "chunked"))
    for part in (*parts, b""):
        await exchange.chunk(part)


async def whole(exchange: Exchange) -> None:
    await reply(exchange, chunk("Hello"), chunk(" you", "stop"), USAGE, DONE)


@contextlib.asynccontextmanager
async def grpc_router(
    start_router: StartRouter, *workers: FakeWorker, flags: tuple[str, ...] = ()
) -> AsyncIterator[tuple[Router, Any]]:
    port = free_port()
    async with (
        start_router(*workers, flags=("--grpc-port", str(port), *flags)) as router,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        await router.sees_ready(len(workers))
        yield router, stubs.router(channel)


def asked(**fields: Any) -> pb.GenerateRequest:
    request = pb.RouteRequest(**{"token_ids": IDS, "model": "tiny", **fields.pop("request", {})})
    return pb.GenerateRequest(request=request, **fields)


async def heard(call: Any) -> list[pb.GenerateResponse]:
    responses = []
    while (response := await call.read()) is not grpc.aio.EOF:
        responses.append(response)
    return responses


async def fault(call: Any) -> tuple[Fault, list[pb.GenerateResponse]]:
    responses: list[pb.GenerateResponse] = []

    async def listen() -> None:
        async for response in call:
            responses.append(response)  # noqa: PERF401 - what came before the failure counts

    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await listen()
    return read(raised.value), responses


async def idle(router: Router) -> None:
    async def holds() -> bool:
        return await router.active_requests() == 0

    await until(holds, "no request is open")


@pytest.mark.parametrize("known", [True, False])
async def test_workers_get_their_key_for_callers_that_are_known(
    start_router: StartRouter, worker: FakeWorker, tmp_path: Path, known: bool
) -> None:
    worker_key, callers = tmp_path / "worker-key", tmp_path / "callers"
    worker_key.write_text("the-workers-own")
    callers.write_text("a-callers")
    flags: tuple[str, ...] = ("--worker-key-file", str(worker_key))
    if known:
        flags += ("--grpc-api-keys-file", str(callers))
    heard_keys: list[list[str]] = []

    async def listen(exchange: Exchange) -> None:
        heard_keys.append(exchange.request.all("authorization"))
        await whole(exchange)

    worker.then(listen)
    async with grpc_router(start_router, worker, flags=flags) as (router, stub):
        assert await heard(stub.Generate(asked(), metadata=(("x-api-key", "a-callers"),)))
        assert heard_keys == [["Bearer the-workers-own"] if known else []]
        assert ("Generate sends workers no key" in router.log_text()) != known
        assert "the-workers-own" not in router.log_text()


async def test_a_reply_comes_as_it_is_made(start_router: StartRouter, worker: FakeWorker) -> None:
    async with grpc_router(start_router, worker) as (router, stub):
        first = asyncio.Event()

        async def slow(exchange: Exchange) -> None:
            await exchange.head(200, SSE, ("transfer-encoding", "chunked"))
            data = chunk("Hello")
            await exchange.chunk(data[:10])
            await exchange.chunk(data[10:])
            await first.wait()
            for part in (chunk(" you", "stop"), USAGE + DONE, b""):
                await exchange.chunk(part)

        worker.then(slow)
        call = stub.Generate(asked(request={"request_id": "r-1", "tenant": "t"}))
        routed = (await call.read()).routed
        assert (routed.request_id, routed.attempt) == ("r-1", 1)
        assert routed.decision.worker.url == worker.url
        assert routed.decision.prompt_tokens == 100
        assert (await call.read()).chunk == pb.Chunk(text="Hello")
        assert await router.active_requests() == 1
        first.set()
        rest = await heard(call)
        assert rest[0].chunk == pb.Chunk(text=" you", finish_reason="stop")
        usage = pb.Usage(prompt_tokens=100, completion_tokens=2, cached_tokens=16)
        assert rest[1:] == [pb.GenerateResponse(finished=pb.Finished(usage=usage))]
        await idle(router)
        metrics = (await router.get("/metrics")).body.decode()
        assert 'warmroute_grpc_calls_total{code="OK",method="Generate"} 1.0' in metrics
        assert "warmroute_grpc_chunks_total 3.0" in metrics
        assert "warmroute_reported_cached_tokens_total 16.0" in metrics


async def test_what_a_worker_is_sent(start_router: StartRouter, worker: FakeWorker) -> None:
    worker.always(whole)
    sampling = pb.Sampling(
        temperature=0.5, top_p=0.9, top_k=40, min_p=0.1, presence_penalty=1, frequency_penalty=-1,
        repetition_penalty=1.1, seed=-7, stop=["\n", "é"], stop_token_ids=[2, 3], min_tokens=1,
        ignore_eos=True,
    )  # fmt: skip
    async with grpc_router(start_router, worker) as (_router, stub):
        await heard(
            stub.Generate(
                asked(
                    request={"max_output_tokens": 9, "cache_salt": "s", "priority": -2, "request_id": "r"},
                    sampling=sampling,
                    return_token_ids=True,
                )
            )
        )
        await heard(stub.Generate(pb.GenerateRequest(request=pb.RouteRequest(text="words", model="tiny"))))
        listed = pb.RouteRequest(token_list=pb.TokenList(ids=[1, 2, 4_294_967_295]), model="tiny")
        await heard(stub.Generate(pb.GenerateRequest(request=listed)))
    full, text, ids = worker.exchanges
    assert full.path == "/v1/completions"
    assert json.loads(full.request.body) == {
        "model": "tiny", "prompt": list(range(1, 101)), "max_tokens": 9, "stream": True,
        "stream_options": {"include_usage": True}, "return_token_ids": True, "cache_salt": "s",
        "priority": -2, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "presence_penalty": 1,
        "frequency_penalty": -1, "repetition_penalty": 1.1, "seed": -7, "stop": ["\n", "é"],
        "stop_token_ids": [2, 3], "min_tokens": 1, "ignore_eos": True,
    }  # fmt: skip
    assert full.request.get("x-request-id") == "r"
    assert json.loads(text.request.body) == {
        "model": "tiny", "prompt": "words", "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    assert len(text.request.get("x-request-id") or "") == 32
    assert json.loads(ids.request.body)["prompt"] == [1, 2, 4_294_967_295]


async def test_a_chat_goes_on_as_it_came(start_router: StartRouter, worker: FakeWorker) -> None:
    async def tools(exchange: Exchange) -> None:
        calls = [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]
        deltas: list[dict[str, Any]] = [
            {"role": "assistant", "content": ""},
            {"reasoning": "hm"},
            {"content": "I"},
            {"tool_calls": calls},
        ]
        events = [event(choices=[{"index": 1, "delta": delta, "finish_reason": None}]) for delta in deltas]
        last = event(choices=[{"index": 1, "delta": {}, "finish_reason": "tool_calls", "token_ids": [5, 6]}])
        await reply(exchange, *events, last, DONE)

    worker.then(tools)
    body = b' {"model": "tiny", "stream": false, "messages": [{"role": "user", "content": "\\u00e9"}]}\n '
    request = pb.RouteRequest(openai=pb.OpenAiBody(json=body), priority=3)
    async with grpc_router(start_router, worker) as (_router, stub):
        responses = await heard(stub.Generate(pb.GenerateRequest(request=request, return_token_ids=True)))
    (sent,) = worker.exchanges
    assert sent.path == "/v1/chat/completions"
    assert sent.request.body == (
        body.rstrip()[:-1]
        + b',"stream":true,"stream_options":{"include_usage":true},"return_token_ids":true,"priority":3}'
    )
    assert [response.chunk for response in responses[1:-1]] == [
        pb.Chunk(choice=1, reasoning="hm"),
        pb.Chunk(choice=1, text="I"),
        pb.Chunk(choice=1, tool_calls_json='[{"index": 0, "function": {"name": "f", "arguments": "{}"}}]'),
        pb.Chunk(choice=1, finish_reason="tool_calls", token_ids=[5, 6]),
    ]
    assert not responses[-1].finished.HasField("usage")


@pytest.mark.parametrize("phase", ["queued", "head", "streaming"])
async def test_cancelling_closes_the_connection_to_the_worker(
    start_router: StartRouter, worker: FakeWorker, phase: str
) -> None:
    async def hang(exchange: Exchange) -> None:
        if phase != "queued":
            await exchange.head(200, SSE, ("transfer-encoding", "chunked"))
        if phase == "streaming":
            await exchange.chunk(chunk("Hello"))
        await exchange.left.wait()

    worker.then(hang)
    async with grpc_router(start_router, worker) as (router, stub):
        call = stub.Generate(asked())
        reading = asyncio.ensure_future(call.read())
        exchange = await worker.exchange()
        if phase == "streaming":
            await reading
            await call.read()
        call.cancel()
        async with asyncio.timeout(2):
            await exchange.left.wait()
        await idle(router)
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
            await reading
        assert 'outcome="cancelled"} 1.0' in (await router.get("/metrics")).body.decode()


async def test_a_deadline_closes_the_connection_to_the_worker(
    start_router: StartRouter, worker: FakeWorker
) -> None:
    async def hang(exchange: Exchange) -> None:
        await exchange.head(200, SSE, ("transfer-encoding", "chunked"))
        await exchange.chunk(chunk("Hello"))
        await exchange.left.wait()

    worker.then(hang)
    async with grpc_router(start_router, worker) as (router, stub):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await heard(stub.Generate(asked(), timeout=0.5))
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        async with asyncio.timeout(2):
            await worker.exchanges[0].left.wait()
        await idle(router)


async def test_a_failure_before_the_first_byte_goes_once_to_another(
    start_router: StartRouter, pair: list[FakeWorker]
) -> None:
    async def broken(exchange: Exchange) -> None:
        exchange.die()

    async def bad_gateway(exchange: Exchange) -> None:
        await exchange.head(502, ("content-length", "0"))

    async def unavailable(exchange: Exchange) -> None:
        await exchange.head(503, ("content-length", "0"))

    async def died_in_prefill(exchange: Exchange) -> None:
        await exchange.head(200, SSE, ("transfer-encoding", "chunked"))
        exchange.die()

    async with grpc_router(start_router, *pair) as (router, stub):
        for failing in (broken, bad_gateway, unavailable, died_in_prefill):
            before = [len(worker.exchanges) for worker in pair]
            for worker in pair:
                worker.then(failing)
            told, responses = await fault(stub.Generate(asked()))
            assert told.reason in ("WORKER_UNREACHABLE", "WORKER_REPLY")
            assert responses == []
            assert [len(worker.exchanges) - was for worker, was in zip(pair, before, strict=True)] == [1, 1]
        assert "warmroute_grpc_retries_total 4.0" in (await router.get("/metrics")).body.decode()
        await idle(router)


async def test_the_second_worker_answers(start_router: StartRouter, pair: list[FakeWorker]) -> None:
    failed: list[str] = []

    def once(worker: FakeWorker) -> Any:
        async def behave(exchange: Exchange) -> None:
            if failed:
                await whole(exchange)
            else:
                failed.append(worker.url)
                await exchange.head(502, ("content-length", "0"))

        return behave

    for worker in pair:
        worker.always(once(worker))
    async with grpc_router(start_router, *pair) as (router, stub):
        responses = await heard(stub.Generate(asked()))
        assert responses[0].routed.attempt == 2
        assert responses[0].routed.decision.worker.url != failed[0]
        assert "".join(response.chunk.text for response in responses) == "Hello you"
        await idle(router)
        page = (await router.get("/metrics")).body.decode()
        assert 'warmroute_reservations_closed_total{outcome="failed"} 1.0' in page
        assert 'warmroute_reservations_closed_total{outcome="finished"} 1.0' in page


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (b"", "closed the connection"),
        (event(error={"message": "out of memory", "code": 500}), "out of memory"),
        (b"data: {no json\n\n", "no JSON"),
    ],
)
async def test_after_the_first_byte_nothing_is_tried_again(
    start_router: StartRouter, pair: list[FakeWorker], last: bytes, message: str
) -> None:
    async def breaks(exchange: Exchange) -> None:
        await exchange.head(200, SSE, ("transfer-encoding", "chunked"))
        await exchange.chunk(chunk("Hello"))
        if last:
            await exchange.chunk(last)
            await exchange.left.wait()
        exchange.die()

    for worker in pair:
        worker.always(breaks)
    async with grpc_router(start_router, *pair) as (router, stub):
        told, responses = await fault(stub.Generate(asked()))
        assert (told.code, told.reason) == (grpc.StatusCode.ABORTED, "STREAM_INTERRUPTED")
        assert message in told.message
        assert [response.WhichOneof("event") for response in responses] == ["routed", "chunk"]
        assert sum(len(worker.exchanges) for worker in pair) == 1
        await idle(router)


@pytest.mark.parametrize(
    ("status", "headers", "code", "reason", "retry"),
    [
        (400, (), grpc.StatusCode.INVALID_ARGUMENT, "WORKER_REFUSED", None),
        (404, (), grpc.StatusCode.NOT_FOUND, "WORKER_REFUSED", None),
        (422, (), grpc.StatusCode.INVALID_ARGUMENT, "WORKER_REFUSED", None),
        (418, (), grpc.StatusCode.FAILED_PRECONDITION, "WORKER_REFUSED", None),
        (429, (("retry-after", "7"),), grpc.StatusCode.RESOURCE_EXHAUSTED, "WORKER_REFUSED", 7),
        (503, (("retry-after", "3"),), grpc.StatusCode.UNAVAILABLE, "WORKER_REFUSED", 3),
        (500, (), grpc.StatusCode.INTERNAL, "WORKER_REPLY", None),
    ],
)
async def test_a_worker_s_own_errors(
    start_router: StartRouter,
    worker: FakeWorker,
    status: int,
    headers: tuple[tuple[str, str], ...],
    code: grpc.StatusCode,
    reason: str,
    retry: float | None,
) -> None:
    body = json.dumps({"error": {"message": "what is wrong", "type": "x"}}).encode()

    async def refuse(exchange: Exchange) -> None:
        await exchange.head(status, *headers, ("content-length", str(len(body))))
        await exchange.raw(body)

    worker.always(refuse)
    async with grpc_router(start_router, worker) as (router, stub):
        told, _ = await fault(stub.Generate(asked()))
        assert (told.code, told.reason, told.retry_s) == (code, reason, retry)
        assert "what is wrong" in told.message
        assert told.metadata["status"] == str(status)
        assert len(worker.exchanges) == 1
        await idle(router)


async def test_silence_and_what_is_no_stream(start_router: StartRouter, worker: FakeWorker) -> None:
    async def silent(exchange: Exchange) -> None:
        await exchange.head(200, SSE, ("transfer-encoding", "chunked"))
        await exchange.chunk(chunk("Hello"))
        await exchange.left.wait()

    async def late(exchange: Exchange) -> None:
        await exchange.left.wait()

    async def document(exchange: Exchange) -> None:
        await exchange.head(200, ("content-type", "application/json"), ("content-length", "2"))
        await exchange.raw(b"{}")

    flags = ("--silence-timeout-ms", "300", "--request-timeout-ms", "300")
    async with grpc_router(start_router, worker, flags=flags) as (_router, stub):
        for behaviour, reason in (
            (silent, "WORKER_TIMEOUT"),
            (late, "WORKER_TIMEOUT"),
            (document, "WORKER_REPLY"),
        ):
            worker.then(behaviour)
            told, _ = await fault(stub.Generate(asked()))
            assert told.reason == reason


@pytest.mark.parametrize(
    ("request_fields", "fields", "field"),
    [
        ({}, {"sampling": pb.Sampling(temperature=float("nan"))}, "sampling.temperature"),
        ({}, {"sampling": pb.Sampling(stop=["x"] * 65)}, "sampling.stop"),
        ({}, {"sampling": pb.Sampling(stop_token_ids=[1] * 1025)}, "sampling.stop_token_ids"),
        ({"token_ids": b"123"}, {}, "token_ids"),
    ],
)
async def test_requests_that_cannot_be_generated_from(
    start_router: StartRouter, worker: FakeWorker, request_fields: Any, fields: Any, field: str
) -> None:
    async with grpc_router(start_router, worker) as (_router, stub):
        told, _ = await fault(stub.Generate(asked(request=request_fields, **fields)))
        assert (told.reason, told.field) == ("INVALID_REQUEST", field)
        openai = pb.OpenAiBody(endpoint=pb.ENDPOINT_RESPONSES, json=b'{"input": "x"}')
        request = pb.GenerateRequest(request=pb.RouteRequest(openai=openai))
        told, _ = await fault(stub.Generate(request))
        assert told.field == "openai.endpoint"
        openai = pb.OpenAiBody(json=b'{"messages": []}')
        request = pb.GenerateRequest(request=pb.RouteRequest(openai=openai), sampling=pb.Sampling(seed=1))
        told, _ = await fault(stub.Generate(request))
        assert told.field == "sampling"
        told, _ = await fault(stub.Generate(pb.GenerateRequest()))
        assert told.field == "request"
        assert worker.exchanges == []


async def test_simulated_workers(tmp_path: Path) -> None:
    servers = [SimServer(model="sim", tokenizer=str(TOKENIZER), speed=1_000.0) for _ in range(2)]
    port = free_port()
    urls = [f"http://127.0.0.1:{server.port}" for server in servers]
    try:
        async with (
            Router(tmp_path / "log", urls, "--grpc-port", str(port), "--tokenizer", str(TOKENIZER)) as router,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            await router.sees_ready(2)
            stub = stubs.router(channel)
            ids = array("I", (number % 500 for number in range(2_000))).tobytes()
            request = pb.RouteRequest(token_ids=ids, model="sim", max_output_tokens=12)
            asking = pb.GenerateRequest(request=request, return_token_ids=True)
            first = await heard(stub.Generate(asking))
            second = await heard(stub.Generate(asking))
            assert second[0].routed.decision.overlap_tokens == 1_984
            assert second[0].routed.decision.worker == first[0].routed.decision.worker
            assert second[-1].finished.usage.cached_tokens == 1_984
            chunks = [response.chunk for response in second[1:-1]]
            assert sum(len(each.token_ids) for each in chunks) == 12
            assert chunks[-1].finish_reason == "length"
            chat = json.dumps(
                {"model": "sim", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
            )
            request = pb.RouteRequest(openai=pb.OpenAiBody(json=chat.encode()))
            responses = await heard(stub.Generate(pb.GenerateRequest(request=request)))
            assert responses[0].routed.decision.rung == pb.RUNG_LOCAL
            assert responses[-1].finished.usage.completion_tokens == 5
            await idle(router)
    finally:
        for server in servers:
            server.stop()
