"""What a vLLM worker tells of itself, beside the router."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.support.http import request


@dataclass(frozen=True)
class CacheCounters:
    """Tokens looked up in the prefix cache, and those found there, since the engine started."""

    queries: float = 0.0
    hits: float = 0.0

    def __add__(self, other: CacheCounters) -> CacheCounters:
        return CacheCounters(self.queries + other.queries, self.hits + other.hits)

    def since(self, earlier: CacheCounters) -> float:
        """The hit rate of what was looked up since `earlier`."""
        return (self.hits - earlier.hits) / (self.queries - earlier.queries)


async def metric(port: int, name: str) -> float:
    """The sum of a metric's samples; 0 where there is none."""
    text = (await request(port, "/metrics")).body.decode()
    return sum(
        float(value) for value in re.findall(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
    )


async def cache_counters(ports: list[int]) -> CacheCounters:
    """The counters of several workers together."""
    total = CacheCounters()
    for port in ports:
        queries = await metric(port, "vllm:prefix_cache_queries_total")
        total += CacheCounters(queries, await metric(port, "vllm:prefix_cache_hits_total"))
    return total


async def running_requests(port: int) -> float:
    """Requests that the engine computes or holds in its queue."""
    return await metric(port, "vllm:num_requests_running") + await metric(port, "vllm:num_requests_waiting")


async def forget(port: int) -> None:
    """Empties the prefix cache of an idle engine."""
    reply = await request(port, "/reset_prefix_cache", b"", method="POST")
    assert reply.status == 200, reply.body


async def token_count(port: int, text: str) -> int:
    """How many tokens the engine makes of a text."""
    reply = await request(port, "/tokenize", {"model": "tiny", "prompt": text, "add_special_tokens": False})
    count: int = reply.json()["count"]
    return count


async def complete(port: int) -> None:
    """One short request that the router does not see: with its step an engine tells what it has to tell."""
    body = {"model": "tiny", "prompt": [7, 8, 9], "max_tokens": 1}
    reply = await request(port, "/v1/completions", body)
    assert reply.status == 200, reply.body
