import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from warmroute.config import WorkerOptions
from warmroute.errors import WorkerReply, WorkerTimeout, WorkerUnreachable
from warmroute.fleet import WorkerClient
from warmroute.fleet import client as client_module

MODELS = '{"object": "list", "data": [{"id": "llama", "max_model_len": 100}]}'
METRICS = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="11"} 1.0\n'


class Worker:
    """A worker whose replies a test chooses."""

    def __init__(self) -> None:
        self.replies: dict[str, web.Response] = {}
        self.hang = False
        app = web.Application()
        app.router.add_get("/{path}", self.answer)
        app.router.add_get("/v1/models", self.answer)
        app.router.add_post("/tokenize", self.tokenize)
        self.asked: list[bytes] = []
        self.server = TestServer(app)

    async def answer(self, request: web.Request) -> web.Response:
        if self.hang:
            await asyncio.Event().wait()
        reply = self.replies.get(request.path)
        return reply or web.Response(status=404)

    async def tokenize(self, request: web.Request) -> web.Response:
        self.asked.append(await request.read())
        return await self.answer(request)

    @property
    def options(self) -> WorkerOptions:
        return WorkerOptions(url=f"http://127.0.0.1:{self.server.port}", name="w1")


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    worker = Worker()
    await worker.server.start_server()
    yield worker
    await worker.server.close()


@pytest.fixture
async def client() -> AsyncIterator[WorkerClient]:
    async with WorkerClient(timeout_s=0.5) as client:
        yield client


async def test_a_worker_is_healthy_when_it_answers_200(worker: Worker, client: WorkerClient) -> None:
    worker.replies["/health"] = web.Response()
    await client.health(worker.options)


@pytest.mark.parametrize("status", [204, 302, 404, 503])
async def test_any_other_status_is_not_healthy(worker: Worker, client: WorkerClient, status: int) -> None:
    worker.replies["/health"] = web.Response(status=status, headers={"Location": "/metrics"})
    with pytest.raises(WorkerReply) as caught:
        await client.health(worker.options)
    assert caught.value.status == status


async def test_a_worker_that_hangs_is_given_up(worker: Worker, client: WorkerClient) -> None:
    worker.hang = True
    with pytest.raises(WorkerTimeout):
        await client.health(worker.options)


async def test_a_closed_port_is_unreachable(worker: Worker, client: WorkerClient) -> None:
    options = worker.options
    await worker.server.close()
    with pytest.raises(WorkerUnreachable):
        await client.health(options)


async def test_facts_come_from_models_and_metrics(worker: Worker, client: WorkerClient) -> None:
    worker.replies["/v1/models"] = web.Response(text=MODELS)
    worker.replies["/metrics"] = web.Response(text=METRICS)
    facts = await client.facts(worker.options)
    assert (facts.models[0].id, facts.max_model_len, facts.block_size, facts.kv_blocks) == (
        "llama",
        100,
        16,
        10,
    )


async def test_a_worker_without_metrics_is_used_all_the_same(worker: Worker, client: WorkerClient) -> None:
    worker.replies["/v1/models"] = web.Response(text=MODELS)
    facts = await client.facts(worker.options)
    assert facts.models[0].id == "llama"
    assert facts.kv_blocks is None


async def test_garbage_instead_of_models_is_a_worker_s_fault(worker: Worker, client: WorkerClient) -> None:
    worker.replies["/v1/models"] = web.Response(body=b"\xff\x00<html>")
    with pytest.raises(WorkerReply):
        await client.facts(worker.options)


async def test_tokens_are_asked_for_with_the_characters_as_they_are(
    worker: Worker, client: WorkerClient
) -> None:
    worker.replies["/tokenize"] = web.Response(text='{"tokens": [3, 4], "max_model_len": 10}')
    tokens = await client.tokenize(worker.options, {"model": "m", "prompt": "é\x00"})
    assert (tokens.ids, tokens.max_model_len) == ([3, 4], 10)
    assert worker.asked == ['{"model": "m", "prompt": "é\\u0000"}'.encode()]


@pytest.mark.parametrize("text", ["{}", '{"tokens": ["a"]}'])
async def test_a_reply_without_tokens_is_a_worker_s_fault(
    worker: Worker, client: WorkerClient, text: str
) -> None:
    worker.replies["/tokenize"] = web.Response(text=text)
    with pytest.raises(WorkerReply, match="/tokenize gives no list"):
        await client.tokenize(worker.options, {"prompt": "x"})


async def test_a_worker_without_the_path_says_404(worker: Worker, client: WorkerClient) -> None:
    with pytest.raises(WorkerReply) as caught:
        await client.tokenize(worker.options, {"prompt": "x"})
    assert caught.value.status == 404


async def test_a_reply_without_end_is_cut(
    worker: Worker, client: WorkerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "REPLY_LIMIT_BYTES", 1000)
    worker.replies["/health"] = web.Response(body=b"x" * 5000)
    with pytest.raises(WorkerReply, match="longer than"):
        await client.health(worker.options)


async def test_the_key_that_workers_ask_for_is_sent_and_asked_for() -> None:
    seen: list[str | None] = []

    async def models(request: web.Request) -> web.Response:
        seen.append(request.headers.get("authorization"))
        return web.Response(text=MODELS) if seen[-1] == "Bearer k" else web.Response(status=401)

    app = web.Application()
    app.router.add_get("/{path:.*}", models)
    server = TestServer(app)
    await server.start_server()
    options = WorkerOptions(url=f"http://127.0.0.1:{server.port}", name="w1")
    async with WorkerClient(timeout_s=0.5) as client:
        with pytest.raises(WorkerReply, match="--worker-key-file"):
            await client.facts(options)
    async with WorkerClient(timeout_s=0.5, key="k") as client:
        assert [model.id for model in (await client.facts(options)).models] == ["llama"]
    await server.close()
    assert seen[0] is None


async def test_the_version_is_learnt_where_it_is_told(worker: Worker, client: WorkerClient) -> None:
    worker.replies["/v1/models"] = web.Response(text=MODELS)
    assert (await client.facts(worker.options)).version == ""
    for text, version in (('{"version": "0.32.0"}', "0.32.0"), ("[" * 5000, ""), ('{"version": 3}', "")):
        worker.replies["/v1/models"] = web.Response(text=MODELS)
        worker.replies["/version"] = web.Response(text=text)
        assert (await client.facts(worker.options)).version == version


async def test_a_trial_is_one_token(worker: Worker, client: WorkerClient) -> None:
    with pytest.raises(WorkerReply):
        await client.trial(worker.options, "llama")
