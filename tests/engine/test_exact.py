"""200 varied bodies on a real engine: our ids are its ids, and the overlap is what it had cached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import engine, varied
from tests.support.engine import BLOCK_TOKENS, Engine
from tests.support.http import request
from tests.support.process import Router, free_port
from warmroute import Tokenizer

# The first test of a run installs the engine where it is not yet.
pytestmark = pytest.mark.timeout(1200)

SEED = 11
BODIES = 200
TEMPLATES = Path(__file__).parents[1] / "support" / "templates"
# Enough for every body of the test: what is evicted is no longer what was promised.
BLOCKS = 4096
# What the worker's `/tokenize` takes of a body.
CHAT_FIELDS = ("messages", "tools", "chat_template_kwargs", "add_generation_prompt")
COMPLETION_FIELDS = ("prompt", "add_special_tokens")


@pytest.fixture(scope="module", params=[None, "parts.jinja"])
def template(request: pytest.FixtureRequest) -> Path | None:
    """The chat template that the engine is started with; its folder's own where there is none."""
    return None if request.param is None else TEMPLATES / request.param


@pytest.fixture(scope="module")
def tiny_model(kit: Path, engine_venv: Path) -> Path:
    return engine.made_model(kit, engine_venv, "tiny")


@pytest.fixture(scope="module")
def worker(kit: Path, engine_venv: Path, tiny_model: Path, template: Path | None) -> Iterator[Engine]:
    flags = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    if template is not None:
        flags += ["--chat-template", str(template)]
    one = Engine(kit, engine_venv, tiny_model, free_port(), blocks=BLOCKS, flags=tuple(flags))
    try:
        one.start()
        one.wait()
        yield one
    finally:
        one.stop()


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path, template: Path | None) -> Tokenizer:
    return Tokenizer(tiny_model, template)


async def _worker_ids(port: int, path: str, body: dict[str, Any]) -> list[int]:
    fields = CHAT_FIELDS if path == varied.CHAT else COMPLETION_FIELDS
    asked = {name: body[name] for name in fields if name in body}
    reply = await request(port, "/tokenize", {"model": "tiny", **asked})
    assert reply.status == 200, reply.body
    ids: list[int] = reply.json()["tokens"]
    return ids


async def test_our_ids_are_the_engine_s(
    say: Callable[[str], None], worker: Engine, tokenizer: Tokenizer, template: Path | None
) -> None:
    tokens = 0
    for path, body in varied.bodies(SEED, BODIES):
        endpoint = "chat" if path == varied.CHAT else "completions"
        ours = memoryview(tokenizer.tokens_for(json.dumps(body).encode(), endpoint)).cast("I").tolist()
        assert ours == await _worker_ids(worker.port, path, body), body
        tokens += len(ours)
    say(f"{BODIES} bodies, {tokens} tokens, template {template and template.name}: every id equal")


async def test_overlap_is_what_was_cached(
    say: Callable[[str], None], tmp_path: Path, worker: Engine, tiny_model: Path, template: Path | None
) -> None:
    flags = ["--tokenizer", str(tiny_model), "--block-size", str(BLOCK_TOKENS)]
    if template is not None:
        flags += ["--chat-template", str(template)]
    cached = prompts = 0
    async with Router(tmp_path / "log", [worker.url], *flags) as router:
        await router.sees_ready(1)
        for path, body in varied.bodies(SEED + 1, BODIES):
            for _ in range(2):
                async with asyncio.timeout(60):
                    reply = await request(router.port, path, body)
                assert reply.status == 200, (reply.body, body)
                assert reply.get("x-warmroute-rung") == "local", body
                usage = reply.json()["usage"]
                had = (usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0
                # The engine computes the last token again, and with it the block that it ends.
                most = (usage["prompt_tokens"] - 1) // BLOCK_TOKENS * BLOCK_TOKENS
                promised = min(int(reply.get("x-warmroute-overlap-tokens") or 0), most)
                assert promised == had, body
                cached, prompts = cached + had, prompts + usage["prompt_tokens"]
    say(
        f"{2 * BODIES} requests, template {template and template.name}: overlap is cached_tokens, "
        f"{cached} of {prompts} tokens"
    )
    assert cached > prompts // 2
