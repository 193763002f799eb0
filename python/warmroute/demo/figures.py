"""What a play is judged by: figures from the clients' turns and the workers' own counters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warmroute.demo.client import Turn

COUNTERS = ("prefix_hits", "prefix_queries", "busy_seconds", "recompute_seconds")


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one play; durations are in simulated seconds."""

    hit_rate: float
    requests_per_second: float
    ttft_p50: float
    ttft_p99: float
    e2e_p50: float
    e2e_p99: float
    recompute_share: float
    requests: int
    seconds: float
    peak_lag: float
    failed: int = 0
    last_failure: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """The workers' counters, summed, at a moment of the clients' clock; the lag is the largest."""

    at: float
    counters: dict[str, float]
    peak_lag: float


def reading(at: float, stats: Sequence[Mapping[str, float]]) -> Reading:
    """Sum what each worker counts."""
    return Reading(
        at=at,
        counters={name: float(sum(worker[name] for worker in stats)) for name in COUNTERS},
        peak_lag=max((worker["peak_lag"] for worker in stats), default=0.0),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all values does not exceed; not a number where there are none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def judge(turns: Sequence[Turn], before: Reading, after: Reading, speed: float) -> Figures:
    """The figures of the turns that ended between two readings."""
    start, end = before.at, after.at
    inside = [turn for turn in turns if start <= turn.ended < end]
    first = [(turn.first - turn.sent) * speed for turn in inside]
    whole = [(turn.ended - turn.sent) * speed for turn in inside]
    change = {name: after.counters[name] - before.counters[name] for name in COUNTERS}
    return Figures(
        hit_rate=_share(change["prefix_hits"], change["prefix_queries"]),
        requests_per_second=len(inside) / ((end - start) * speed),
        ttft_p50=percentile(first, 0.5),
        ttft_p99=percentile(first, 0.99),
        e2e_p50=percentile(whole, 0.5),
        e2e_p99=percentile(whole, 0.99),
        recompute_share=_share(change["recompute_seconds"], change["busy_seconds"]),
        requests=len(inside),
        seconds=(end - start) * speed,
        peak_lag=after.peak_lag,
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
