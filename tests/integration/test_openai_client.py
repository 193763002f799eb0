"""The `openai` package through the router: replies parse, and errors raise the class that they should."""

from __future__ import annotations

from collections.abc import AsyncIterator

import openai
import pytest

from tests.integration.conftest import StartRouter
from tests.support.fake_worker import FakeWorker, dies_after, error
from tests.support.process import Router


@pytest.fixture
async def client(router: Router) -> AsyncIterator[openai.AsyncOpenAI]:
    async with _client(router) as one:
        yield one


def _client(router: Router) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{router.url}/v1", api_key="sk-test", max_retries=0, timeout=10)


async def _chat(client: openai.AsyncOpenAI, model: str = "tiny") -> str | None:
    reply = await client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hello"}])
    return reply.choices[0].message.content


async def _streamed(client: openai.AsyncOpenAI) -> list[str | None]:
    chunks = await client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "hello"}], stream=True
    )
    return [chunk.choices[0].delta.content async for chunk in chunks]


async def test_replies(client: openai.AsyncOpenAI) -> None:
    assert await _chat(client) == "hello"
    assert await _streamed(client) == ["hel", "lo"]
    text = await client.completions.create(model="tiny", prompt=[1, 2, 3])
    assert text.choices[0].text == "hello"
    assert [model.id async for model in client.models.list()] == ["tiny"]


async def test_the_workers_errors(worker: FakeWorker, client: openai.AsyncOpenAI) -> None:
    classes = {
        400: openai.BadRequestError,
        401: openai.AuthenticationError,
        404: openai.NotFoundError,
        422: openai.UnprocessableEntityError,
        429: openai.RateLimitError,
        500: openai.InternalServerError,
    }
    for status, kind in classes.items():
        worker.then(error(status))
        with pytest.raises(kind, match=f"scripted {status}"):
            await _chat(client)


async def test_the_routers_errors(worker: FakeWorker, client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="none-such") as unknown:
        await _chat(client, "none-such")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as broken:
        await client.post("/chat/completions", body=[1, 2], cast_to=object)
    assert broken.value.type == "invalid_request_error"
    with pytest.raises(openai.APIStatusError) as long:
        await client.completions.create(model="tiny", prompt=list(range(9000)))
    assert (long.value.status_code, long.value.code) == (413, "context_length_exceeded")
    assert worker.exchanges == []


async def test_no_worker(start_router: StartRouter) -> None:
    absent = FakeWorker()
    await absent.start()
    await absent.stop()
    async with start_router(absent, ready=False) as router, _client(router) as client:
        with pytest.raises(openai.InternalServerError) as refused:
            await _chat(client)
    assert (refused.value.status_code, refused.value.code) == (503, "no_eligible_worker")


async def test_a_broken_stream_raises(worker: FakeWorker, client: openai.AsyncOpenAI) -> None:
    worker.then(dies_after(b'data: {"choices": [{"delta": {"content": "hel"}}]}\n\n'))
    with pytest.raises(openai.APIError) as broken:
        await _streamed(client)
    assert broken.value.code == "stream_interrupted"
