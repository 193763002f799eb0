"""What a worker's own metrics say of its load. The page is untrusted, and read for a few names only."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

RUNNING = b"vllm:num_requests_running"
WAITING = b"vllm:num_requests_waiting"
USAGE = b"vllm:kv_cache_usage_perc"
# What grows with the steps of an engine.
STEPS = (
    b"vllm:iteration_tokens_total_count",
    b"vllm:prompt_tokens_total",
    b"vllm:generation_tokens_total",
)
STARTED = b"process_start_time_seconds"
# Tokens that were looked up in the prefix cache, and those that were found.
QUERIES = b"vllm:prefix_cache_queries_total"
HITS = b"vllm:prefix_cache_hits_total"

# Lines of one name that are looked at: a page has one for each engine and model.
LINES_LIMIT = 4_096


@dataclass(frozen=True, slots=True)
class Gauges:
    """One engine's load, as it said: requests, share of KV blocks in use, and what grows with its steps.

    `queries` and `hits` are the tokens looked up in its prefix cache, and found there.
    """

    requests: int
    kv_usage: float
    steps: float | None
    started: float | None
    queries: int | None = None
    hits: int | None = None


def read_gauges(page: bytes, dp_rank: int | None) -> Gauges | None:
    """The load of one engine; nothing where the page does not tell how many requests it has."""
    engine = b'engine="%d"' % (dp_rank or 0)
    running, waiting = _sum(page, RUNNING, engine), _sum(page, WAITING, engine)
    if running is None or not 0 <= running < 2**31:
        return None
    usage = _sum(page, USAGE, engine) or 0.0
    steps = [found for found in (_sum(page, name, engine) for name in STEPS) if found is not None]
    return Gauges(
        requests=int(running + min(max(waiting or 0.0, 0.0), 2.0**31)),
        kv_usage=min(max(usage, 0.0), 1.0),
        steps=sum(steps) if steps else None,
        started=next((value for _, value in _samples(page, STARTED)), None),
        queries=_count(_sum(page, QUERIES, engine)),
        hits=_count(_sum(page, HITS, engine)),
    )


def _count(value: float | None) -> int | None:
    return int(value) if value is not None and 0 <= value < 2**63 else None


def _sum(page: bytes, name: bytes, engine: bytes) -> float | None:
    """The sum over the samples of a name; of one engine, where samples name engines."""
    found = [value for labels, value in _samples(page, name) if b'engine="' not in labels or engine in labels]
    return sum(found) if found else None


def _samples(page: bytes, name: bytes) -> Iterator[tuple[bytes, float]]:
    """Labels and value of each sample of a name; they stand together."""
    start = _first(page, name)
    for _ in range(LINES_LIMIT):
        if start is None or not page.startswith(name, start):
            return
        end = page.find(b"\n", start)
        line = page[start + len(name) : end if end >= 0 else len(page)]
        labels, _, rest = line.rpartition(b"}")
        try:
            value = float(rest.split()[0])
        except (ValueError, IndexError):
            value = math.nan
        if math.isfinite(value) and line[:1] in (b"{", b" "):
            yield labels, value
        start = end + 1 if end >= 0 else None


def _first(page: bytes, name: bytes) -> int | None:
    """Where the first sample of a name begins; other names may begin as it does."""
    start = 0 if page.startswith(name) else page.find(b"\n" + name) + 1
    for _ in range(LINES_LIMIT):
        if page.startswith((name + b"{", name + b" "), start):
            return start
        start = page.find(b"\n" + name, start) + 1
        if start == 0:
            return None
    return None
