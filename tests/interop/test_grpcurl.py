"""grpcurl, which knows the interface from server reflection alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.interop.conftest import KEY, Target
from tests.support.waiting import until

PROMPT = {"token_list": {"ids": list(range(100))}, "model": "sim"}


class Curl:
    """Calls of one router."""

    def __init__(self, tools: Path, target: Target) -> None:
        self._command = [str(tools / "grpcurl"), "-plaintext", "-format-error"]
        self._address = target.address
        self._key = ["-H", f"authorization: Bearer {KEY}"]

    async def run(self, *arguments: str, data: object = None, key: bool = True) -> tuple[int, str]:
        """The exit status and what was written."""
        parts = [*self._command, *(self._key if key else [])]
        if data is not None:
            parts += ["-d", "@"]
        process = await asyncio.create_subprocess_exec(
            *parts,
            self._address,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        messages = data if isinstance(data, list) else [data]
        async with asyncio.timeout(30):
            output, _ = await process.communicate("\n".join(map(json.dumps, messages)).encode())
        assert process.returncode is not None
        return process.returncode, output.decode()

    async def call(self, method: str, data: object) -> list[dict[str, Any]]:
        """The answers of a method."""
        status, output = await self.run(f"warmroute.v1.{method}", data=data)
        assert status == 0, output
        return _documents(output)


def _documents(text: str) -> list[dict[str, Any]]:
    decoder, documents, at = json.JSONDecoder(), [], 0
    while (rest := text[at:].lstrip()) != "":
        document, end = decoder.raw_decode(rest)
        documents.append(document)
        at = len(text) - len(rest) + end
    return documents


async def test_reflection(tools: Path, target: Target) -> None:
    curl = Curl(tools, target)
    _, listed = await curl.run("list")
    assert {"warmroute.v1.Router", "warmroute.v1.Fleet", "grpc.health.v1.Health"} <= set(listed.split())
    _, described = await curl.run("describe", "warmroute.v1.RouteRequest")
    assert "bytes token_ids = 2;" in described


async def test_route_report_stream_generate(tools: Path, target: Target) -> None:
    curl = Curl(tools, target)
    (booked,) = await curl.call("Router/Route", PROMPT)
    assert booked["decision"]["prompt_tokens"] == 100
    ended = {
        "reservation": booked["reservation"],
        "ended": {"outcome": "OUTCOME_FINISHED", "cached_tokens": 0},
    }
    assert await curl.call("Router/Report", ended) == [{}]
    answers = await curl.call("Router/RouteStream", [{"id": 1, "route": PROMPT}, {"id": 2, "route": {}}])
    assert [answer["id"] for answer in answers] == ["1", "2"]
    assert answers[0]["route"]["decision"]["reason"] == "REASON_WARM"
    assert (answers[1]["error"]["code"], answers[1]["error"]["reason"]) == (3, "INVALID_REQUEST")
    (listed,) = await curl.call("Fleet/ListWorkers", {})
    assert sum(worker["load"].get("requests", 0) for worker in listed["workers"]) == 0
    generated = await curl.call("Router/Generate", {"request": {**PROMPT, "max_output_tokens": 3}})
    assert [next(iter(each)) for each in generated] == ["routed", "chunk", "chunk", "chunk", "finished"]
    assert generated[-1]["finished"]["usage"]["completion_tokens"] == 3


async def test_errors(tools: Path, target: Target) -> None:
    curl = Curl(tools, target)
    status, output = await curl.run("warmroute.v1.Router/Route", data={"token_ids": "AQI="})
    assert status != 0
    assert "INVALID_REQUEST" in output
    assert "token_ids" in output
    status, output = await curl.run("warmroute.v1.Router/Route", data=PROMPT, key=False)
    assert status != 0
    assert "UNAUTHORIZED" in output

    async def is_serving() -> bool:
        service = {"service": "warmroute.v1.Router"}
        _, health = await curl.run("grpc.health.v1.Health/Check", data=service, key=False)
        return bool(json.loads(health) == {"status": "SERVING"})

    await until(is_serving, "the router is healthy")
