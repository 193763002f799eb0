"""Bad input gets a clear error in OpenAI's shape, and the router goes on serving."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from tests.integration.conftest import StartRouter
from tests.support.bodies import assert_openai_error, chat, completion
from tests.support.fake_worker import FakeWorker, closes_at_once, garbage
from tests.support.http import Client, request
from tests.support.process import Router

CHAT = "/v1/chat/completions"
JSON = [("content-type", "application/json")]

BROKEN = {
    "cut off": b'{"model":"tiny","messages":[{"role":"user","content":"hel',
    "no json": b"hello",
    "trailing": b'{"model":"tiny","messages":[]} x',
    "empty": b"",
    "not an object": b'["tiny"]',
    "null": b"null",
    "bad utf-8": b'{"model":"tiny","messages":[{"role":"user","content":"\xff\xfe"}]}',
    "model is a number": b'{"model":7,"messages":[]}',
    "too deep": b'{"model":"tiny","messages":' + b"[" * 100_000,
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_body_is_the_callers_fault(worker: FakeWorker, router: Router, body: bytes) -> None:
    error = assert_openai_error(await request(router.port, CHAT, body, headers=JSON), 400)
    assert error["type"] == "invalid_request_error"
    assert worker.exchanges == []
    assert (await request(router.port, CHAT, chat())).status == 200


async def test_an_unknown_model_is_not_found(worker: FakeWorker, router: Router) -> None:
    error = assert_openai_error(await request(router.port, CHAT, chat(model="none-such")), 404)
    assert "none-such" in error["message"]
    assert worker.exchanges == []


async def test_a_prompt_longer_than_the_fleet_takes_is_refused(worker: FakeWorker, router: Router) -> None:
    ids = list(range(9000))
    error = assert_openai_error(await request(router.port, "/v1/completions", completion(ids)), 413)
    assert "9000" in error["message"]
    assert "8192" in error["message"]
    assert worker.exchanges == []
    assert (await request(router.port, "/v1/completions", completion(ids[:8000]))).status == 200


async def test_a_long_prompt_goes_to_the_worker_that_takes_it(start_router: StartRouter) -> None:
    short, long = FakeWorker(max_model_len=2000), FakeWorker(max_model_len=8000)
    async with short, long, start_router(short, long) as router:
        await router.sees_ready(2)
        for start in range(5):
            ids = list(range(start * 5000, start * 5000 + 4000))
            assert (await request(router.port, "/v1/completions", completion(ids))).status == 200
    assert (len(short.exchanges), len(long.exchanges)) == (0, 5)


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_refused(
    worker: FakeWorker, start_router: StartRouter, chunked: bool
) -> None:
    body = json.dumps(chat("x" * 200_000)).encode()
    async with start_router(worker, flags=("--body-limit-bytes", "100000")) as router:
        async with await Client.connect(router.port) as client, asyncio.timeout(10):
            if chunked:
                await client.send(CHAT, headers=[*JSON, ("transfer-encoding", "chunked")])
                client.writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
            else:
                await client.send(CHAT, body, headers=JSON)
            await client.read_head()
            error = assert_openai_error(await client.read_rest(), 413)
        assert "100000" in error["message"]
        assert worker.exchanges == []
        assert (await request(router.port, CHAT, chat("x" * 50_000))).status == 200


async def test_a_body_over_the_limit_is_refused_before_it_is_sent(
    worker: FakeWorker, start_router: StartRouter
) -> None:
    router = start_router(worker, flags=("--body-limit-bytes", "100000"))
    async with router as running, await Client.connect(running.port) as client, asyncio.timeout(10):
        await client.send(CHAT, headers=[*JSON, ("content-length", str(10**12))])
        await client.read_head()
        assert_openai_error(await client.read_rest(), 413)


async def test_no_worker_is_said_so(start_router: StartRouter) -> None:
    absent = FakeWorker()
    await absent.start()
    await absent.stop()
    async with start_router(absent, ready=False) as router:
        assert_openai_error(await request(router.port, CHAT, chat()), 503)
        assert (await router.get("/readyz")).status == 503
        assert (await router.get("/healthz")).status == 200


GARBAGE = {
    "not http": b"\x00\x01\x02 garbage\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "bad header": b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
    "bad length": b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
    "endless header": b"HTTP/1.1 200 OK\r\nx: " + b"a" * 2_000_000,
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
async def test_a_worker_that_answers_garbage_is_a_bad_gateway(
    worker: FakeWorker, router: Router, data: bytes
) -> None:
    worker.then(garbage(data))
    assert_openai_error(await request(router.port, CHAT, chat()), 502)
    assert (await request(router.port, CHAT, chat())).status == 200


async def test_a_worker_that_closes_at_once_is_a_bad_gateway(worker: FakeWorker, router: Router) -> None:
    worker.then(closes_at_once)
    assert_openai_error(await request(router.port, CHAT, chat()), 502)
    assert (await request(router.port, CHAT, chat())).status == 200


async def test_garbage_in_a_chunked_body_breaks_only_that_reply(worker: FakeWorker, router: Router) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    worker.then(garbage(head + b"2\r\n{}\r\nzz\r\n"))
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await request(router.port, CHAT, chat())
    assert (await request(router.port, CHAT, chat())).status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
        b"GET\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_a_client_that_does_not_speak_http_is_dropped(
    worker: FakeWorker, router: Router, data: bytes
) -> None:
    async with await Client.connect(router.port) as client, asyncio.timeout(10):
        client.writer.write(data)
        client.writer.write_eof()
        with contextlib.suppress(ConnectionError):
            await client.reader.read()
    assert worker.exchanges == []
    assert (await request(router.port, CHAT, chat())).status == 200


async def test_an_unknown_path_is_not_found(router: Router) -> None:
    assert_openai_error(await router.get("/no/such/path"), 404)
