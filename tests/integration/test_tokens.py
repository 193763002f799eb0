"""Workers whose tokens are ours, or not: what the router makes of it, and how it shows."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import StartRouter
from tests.support.fake_worker import FakeWorker, silent
from tests.support.http import Reply, request
from tests.support.process import Router, free_port
from tests.support.tokenize import tokenizes, with_template
from tests.support.waiting import until
from warmroute.sim import TOKENIZER

TOKENS = ("--tokenizer", str(TOKENIZER))
LONG = "A prompt that is long enough to be worth a question. " * 120


def chat(text: str = LONG, model: str = "tiny") -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}]}


async def rung(router: Router, path: str, body: dict[str, Any]) -> str | None:
    reply = await request(router.port, path, body)
    assert reply.status == 200, reply.body
    return reply.get("x-warmroute-rung")


async def rungs(router: Router, model: str = "tiny") -> tuple[str | None, str | None]:
    """The rungs of a chat and of a completion."""
    completion = {"model": model, "prompt": LONG}
    chats = await rung(router, "/v1/chat/completions", chat(model=model))
    return chats, await rung(router, "/v1/completions", completion)


async def gauge(router: Router, name: str) -> dict[tuple[str, ...], float]:
    page = (await router.get("/metrics")).body.decode()
    lines = re.findall(rf"^{name}{{(.*)}} (\S+)$", page, re.MULTILINE)
    return {tuple(re.findall(r'="([^"]*)"', labels)): float(value) for labels, value in lines}


async def tokens_of(router: Router, worker: FakeWorker, model: str = "tiny") -> dict[str, Any]:
    (listed,) = [one for one in await router.workers() if one["url"] == worker.url]
    tokens: dict[str, Any] = listed["tokens"][model]
    return tokens


async def test_a_worker_with_our_tokenizer_is_verified(worker: FakeWorker, start_router: StartRouter) -> None:
    worker.tokenize = tokenizes()
    async with start_router(worker, flags=TOKENS) as router:
        told = await tokens_of(router, worker)
        assert (told["text"], told["chat"], told["difference"]) == ("verified", "verified", None)
        assert await rungs(router) == ("local", "local")
        assert await gauge(router, "warmroute_model_tokens") == {
            ("tiny", "texts", "verified"): 1,
            ("tiny", "chats", "verified"): 1,
        }
        assert await gauge(router, "warmroute_model_rung") == {
            ("tiny", "texts", "local"): 1,
            ("tiny", "chats", "local"): 1,
        }
        assert router.log_text().count("local tokens are verified") == 1


async def test_one_id_that_differs_turns_local_tokens_off(
    worker: FakeWorker, start_router: StartRouter
) -> None:
    def lies(asked: dict[str, Any], ids: list[int]) -> list[int]:
        return [*ids[:5], ids[5] + 1, *ids[6:]] if "12345" in str(asked.get("prompt")) else ids

    worker.tokenize = tokenizes(change=lies)
    async with start_router(worker, flags=(*TOKENS, "--log-format", "human")) as router:
        (line,) = [line for line in router.log_text().splitlines() if "LOCAL TOKENS ARE OFF" in line]
        for word in (" error ", "model=tiny", "canary=digits", "position=5", "chats and completions"):
            assert word in line
        assert "12345" not in router.log_text()
        assert await rungs(router) == ("worker", "worker")
        told = await tokens_of(router, worker)
        assert (told["text"], told["chat"], told["difference"]["canary"]) == ("refused", "refused", "digits")
        assert ("tiny", "chats", "refused") in await gauge(router, "warmroute_model_tokens")
        explained = await explain(router, chat())
        assert (explained["rung"], explained["inexact"]) == ("worker", "tokens_differ")
        assert (await explain(router, chat("new")))["rung"] == "text"


async def explain(router: Router, body: dict[str, Any]) -> dict[str, Any]:
    reply: Reply = await request(router.port, "/warmroute/v1/explain", body)
    prompt: dict[str, Any] = reply.json()["prompt"]
    return prompt


async def test_another_template_is_the_chats_alone(
    worker: FakeWorker, start_router: StartRouter, tmp_path: Path
) -> None:
    other = with_template(tmp_path / "other", "assistant\\n", "model\\n")
    worker.tokenize = tokenizes(other)
    async with start_router(worker, flags=TOKENS) as router:
        assert await rungs(router) == ("worker", "local")
        assert (await gauge(router, "warmroute_model_rung")).keys() == {
            ("tiny", "texts", "local"),
            ("tiny", "chats", "worker"),
        }
        assert router.log_text().count("LOCAL TOKENS ARE OFF") == 1
        counts = await gauge(router, "warmroute_inexact_prompts_total")
        assert counts["template_differs",] == 1


async def test_tokens_of_a_worker_give_the_overlap(
    worker: FakeWorker, start_router: StartRouter, tmp_path: Path
) -> None:
    worker.tokenize = tokenizes(with_template(tmp_path / "other", "assistant\\n", "model\\n"))
    async with start_router(worker, flags=TOKENS) as router:
        first = await request(router.port, "/v1/chat/completions", chat())
        second = await request(router.port, "/v1/chat/completions", chat(LONG + "And more."))
        assert first.get("x-warmroute-overlap-tokens") == "0"
        overlap = int(second.get("x-warmroute-overlap-tokens") or 0)
        assert overlap % 16 == 0
        assert overlap > 1000


async def test_without_the_worker_rung_it_is_text(worker: FakeWorker, start_router: StartRouter) -> None:
    worker.tokenize = tokenizes(change=lambda _, ids: [0, *ids])
    async with start_router(worker, flags=(*TOKENS, "--worker-tokenize", "off")) as router:
        joined = len(worker.tokenizations)
        assert await rungs(router) == ("text", "text")
        assert len(worker.tokenizations) == joined
        assert ("tiny", "chats", "text") in await gauge(router, "warmroute_model_rung")
        page = (await router.get("/metrics")).body.decode()
        assert "warmroute_affinity_approximate 1.0" in page


async def test_a_worker_without_tokenize_is_used_unverified(
    worker: FakeWorker, start_router: StartRouter
) -> None:
    async with start_router(worker, flags=TOKENS) as router:
        told = await tokens_of(router, worker)
        assert (told["text"], told["chat"]) == ("unverified", "unverified")
        assert "404" in told["error"]
        assert await rungs(router) == ("local", "local")
        await until(_probed(worker, 30), "more looks are taken")
        assert router.log_text().count("tokens are not verified") == 1
        assert len(worker.tokenizations) == 1


def _probed(worker: FakeWorker, count: int) -> Any:
    async def holds() -> bool:
        return worker.probes >= count

    return holds


async def test_a_slow_worker_is_ready_after_the_bound(worker: FakeWorker, start_router: StartRouter) -> None:
    worker.tokenize = silent
    flags = (*TOKENS, "--verify-timeout-ms", "300")
    async with asyncio.timeout(15), start_router(worker, flags=flags) as router:
        told = await tokens_of(router, worker)
        assert (told["text"], told["error"]) == ("unverified", "the canaries took longer than 0.3 s")
        assert await rungs(router) == ("local", "local")


async def test_one_of_two_workers_that_disagrees_decides_while_it_is_up(
    pair: list[FakeWorker], start_router: StartRouter
) -> None:
    good, bad = pair
    good.tokenize = tokenizes()
    bad.tokenize = tokenizes(change=lambda _, ids: [*ids, 1])
    async with start_router(*pair, flags=(*TOKENS, "--worker-tokenize", "off")) as router:
        await router.sees_ready(2)
        assert await rungs(router) == ("text", "text")
        bad.healthy = False
        await router.sees_ready(1)
        assert await rungs(router) == ("local", "local")
        assert "local tokens are on again" in router.log_text()
        # It comes back mended.
        bad.tokenize, bad.healthy = tokenizes(), True
        await router.sees_ready(2)
        assert await rungs(router) == ("local", "local")
        assert router.log_text().count("LOCAL TOKENS ARE OFF") == 1


async def test_each_model_has_its_own_tokenizer_and_trust(start_router: StartRouter, tmp_path: Path) -> None:
    other = with_template(tmp_path / "other", "assistant\\n", "model\\n")
    async with FakeWorker("one") as one, FakeWorker("two") as two, FakeWorker("three") as three:
        one.tokenize, two.tokenize = tokenizes(), tokenizes(other)
        three.tokenize = tokenizes(other)
        flags = (*TOKENS, "--tokenizer", f"two={other}", "--worker-tokenize", "off")
        async with start_router(one, two, three, flags=flags) as router:
            await router.sees_ready(3)
            assert await rungs(router, "one") == ("local", "local")
            assert await rungs(router, "two") == ("local", "local")
            assert await rungs(router, "three") == ("text", "local")


@pytest.mark.parametrize("given", [(*TOKENS, "--tokenizer", "/other"), ("--tokenizer", "m=/nowhere")])
async def test_a_wrong_tokenizer_ends_the_start(given: tuple[str, ...]) -> None:
    command = str(Path(sys.executable).parent / "warmroute")
    flags = ("serve", "--port", "0", "--worker", "http://127.0.0.1:1", *given)
    process = await asyncio.create_subprocess_exec(command, *flags, stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    assert process.returncode == 2
    assert b"prompt.tokenizer" in said


async def test_a_simulated_worker_is_verified(tmp_path: Path) -> None:
    command, port = str(Path(sys.executable).parent / "warmroute"), free_port()
    simulated = await asyncio.create_subprocess_exec(command, "sim-worker", "--port", str(port))
    try:
        async with Router(tmp_path / "log", [f"http://127.0.0.1:{port}"], *TOKENS) as router:
            (listed,) = await router.workers()
            assert listed["tokens"]["sim"]["text"] == "verified"
            assert listed["tokens"]["sim"]["chat"] == "verified"
            assert (
                await rung(router, "/v1/chat/completions", {**chat(model="sim"), "max_tokens": 1}) == "local"
            )
    finally:
        simulated.terminate()
        await simulated.wait()


async def test_a_tokenizer_that_is_slow_is_said_once(
    worker: FakeWorker, start_router: StartRouter, tmp_path: Path
) -> None:
    definition = json.loads((TOKENIZER / "tokenizer.json").read_bytes())
    definition["normalizer"] = {"type": "NFKC"}
    slow = tmp_path / "tokenizer.json"
    slow.write_text(json.dumps(definition))
    flags = (*TOKENS, "--tokenizer", f"slow={slow}", "--verify-timeout-ms", "0", "--log-format", "human")
    async with start_router(worker, flags=flags) as router:
        (line,) = [line for line in router.log_text().splitlines() if "fast tokenizer is not used" in line]
        assert "model=slow" in line
        assert "fastokens" in line
