"""Requests that are handed over by gRPC to real engines."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import vllm
from tests.support.engine import Engine
from tests.support.process import Router, free_port
from tests.support.waiting import until
from warmroute.client import AsyncClient
from warmroute.v1 import router_pb2 as pb

# The first test of a run installs the engine where it is not yet.
pytestmark = pytest.mark.timeout(1200)

IDS = array("I", range(300, 620)).tobytes()  # ten of the engine's blocks
EXACT = pb.Sampling(temperature=0, ignore_eos=True)


@pytest.fixture
async def client(tmp_path: Path, engines: list[Engine], model: Path) -> AsyncIterator[AsyncClient]:
    port = free_port()
    urls = [engine.url for engine in engines]
    flags = ("--tokenizer", str(model), "--block-size", "32", "--grpc-port", str(port))
    async with Router(tmp_path / "router.log", urls, *flags) as router:
        await router.sees_ready(len(engines))
        async with AsyncClient(f"127.0.0.1:{port}") as client:
            yield client


async def test_ids_come_back_with_text_and_usage(client: AsyncClient, engines: list[Engine]) -> None:
    for engine in engines:
        await vllm.forget(engine.port)
    replies = []
    for _ in range(2):
        generation = await client.generate(
            IDS, model="tiny", max_output_tokens=12, sampling=EXACT, return_token_ids=True
        )
        chunks = [chunk async for chunk in generation]
        assert [chunk.finish_reason for chunk in chunks][-1] == "length"
        ids = [token for chunk in chunks for token in chunk.token_ids]
        usage = generation.usage
        assert usage is not None
        assert generation.routed is not None
        assert (usage.prompt_tokens, usage.completion_tokens, len(ids)) == (320, 12, 12)
        assert usage.cached_tokens == generation.routed.decision.overlap_tokens
        replies.append((ids, "".join(chunk.text for chunk in chunks), usage.cached_tokens))
    # The last token is computed in any case, and with it its block.
    assert [cached for _, _, cached in replies] == [0, 288]
    assert replies[0][:2] == replies[1][:2]


async def test_a_chat_is_rendered_here_as_there(client: AsyncClient) -> None:
    chat = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "count " * 200}],
        "max_tokens": 4,
        "temperature": 0,
    }
    for again in (False, True):
        generation = await client.generate(chat)
        assert [chunk async for chunk in generation]
        assert generation.routed is not None
        assert generation.usage is not None
        decision, usage = generation.routed.decision, generation.usage
        assert decision.rung == pb.RUNG_LOCAL
        assert usage.prompt_tokens == decision.prompt_tokens
        assert usage.cached_tokens == decision.overlap_tokens
        assert (decision.overlap_tokens > 0) == again


async def test_a_caller_that_leaves_frees_the_engine(client: AsyncClient, engines: list[Engine]) -> None:
    async def idle() -> bool:
        return sum([await vllm.running_requests(engine.port) for engine in engines]) == 0

    async def busy() -> bool:
        return not await idle()

    generation = await client.generate(IDS, model="tiny", max_output_tokens=3000, sampling=EXACT)
    async with asyncio.timeout(60):
        await anext(aiter(generation))
        await until(busy, "the engine runs the request")
    generation.cancel()
    await until(idle, "the engine has aborted the request", 5)
