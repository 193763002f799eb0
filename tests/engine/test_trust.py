"""Tokens made here against a real engine's own: verified, caught, and asked for."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import vllm
from tests.support.engine import BLOCK_TOKENS, Engine
from tests.support.http import request
from tests.support.process import Router

# The first test of a run installs the engine where it is not yet.
pytestmark = pytest.mark.timeout(1200)

BLOCKS = ("--block-size", str(BLOCK_TOKENS))
WORDS = [f"word{number} étude 日本 👍🏽" for number in range(300)]
TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def other_template(model: Path, tmp_path: Path) -> Path:
    """The engine's tokenizer, with a chat template that ends otherwise."""
    folder = tmp_path / "other"
    shutil.copytree(model, folder)
    config = json.loads((model / "tokenizer_config.json").read_text())
    assert "assistant" in config["chat_template"]
    config["chat_template"] = config["chat_template"].replace("assistant", "Assistant")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


async def test_the_engine_s_own_tokenizer_is_verified(
    tmp_path: Path, engines: list[Engine], model: Path
) -> None:
    flags = ("--tokenizer", str(model), *BLOCKS)
    async with Router(tmp_path / "log", [engine.url for engine in engines], *flags) as router:
        await router.sees_ready(len(engines))
        for worker in await router.workers():
            told = worker["tokens"]["tiny"]
            assert (told["text"], told["chat"], told["error"]) == ("verified", "verified", None)


async def test_another_template_is_caught_and_the_engine_s_tokens_give_the_overlap(
    say: Callable[[str], None], tmp_path: Path, engines: list[Engine], other_template: Path
) -> None:
    await vllm.forget(engines[0].port)
    generator = random.Random(5)
    system = " ".join(generator.choice(WORDS) for _ in range(300))
    flags = ("--tokenizer", str(other_template), "--worker-tokenize-timeout-ms", "10000", *BLOCKS)
    async with Router(tmp_path / "log", [engines[0].url], *flags) as router:
        (line,) = [line for line in router.log_text().splitlines() if "LOCAL TOKENS ARE OFF" in line]
        assert "off=chats " in line
        assert "canary=chat " in line
        seen = []
        for turn in range(6):
            messages: list[dict[str, Any]] = [
                {"role": "system", "content": system},
                {"role": "user", "content": f"turn {turn} " + "x y " * 40 * turn},
            ]
            body = {"model": "tiny", "messages": messages, "max_tokens": 1, "tools": [TOOL]}
            body["tool_choice"] = "none"  # the engine has no parser for calls
            reply = await request(router.port, "/v1/chat/completions", body)
            assert reply.status == 200, reply.body
            assert reply.get("x-warmroute-rung") == "worker"
            cached = reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
            seen.append((int(reply.get("x-warmroute-overlap-tokens") or 0), cached))
        assert all(overlap == cached for overlap, cached in seen), seen
        assert seen[0][0] == 0
        assert all(overlap > 1000 for overlap, _ in seen[1:]), seen
        say(f"overlap by the engine's own tokens, and what it had cached: {seen}")
