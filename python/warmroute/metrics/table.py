"""The metrics of warmroute, each defined here and nowhere else; docs/metrics.md is made from this table."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from warmroute.metrics.row import Row, Sample, Snapshot


def _one(pick: Callable[[Snapshot], Any]) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: [((), pick(snapshot))]


def _router(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    return _one(lambda snapshot: snapshot.router[name])


def _index(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    return _one(lambda snapshot: snapshot.router["index"][name])


def _named(*names: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """Several counters of the router as one metric with a label."""
    return lambda snapshot: [((name,), snapshot.router[name]) for name in names]


def _worker(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: [((worker["name"],), worker[name]) for worker in snapshot.router["workers"]]


STATES = ("ready", "down", "draining")


def _states(snapshot: Snapshot) -> Iterator[Sample]:
    for state in STATES:
        yield (state,), sum(worker["state"] == state for worker in snapshot.router["workers"])


def _ready(snapshot: Snapshot) -> Iterable[Sample]:
    return [((worker["name"],), worker["state"] == "ready") for worker in snapshot.router["workers"]]


def _decisions(snapshot: Snapshot) -> Iterable[Sample]:
    return [((reason,), count) for reason, count in snapshot.router["decisions"].items()]


def _gauge(name: str, doc: str, read: Callable[[Snapshot], Iterable[Sample]], *labels: str) -> Row:
    return Row(f"warmroute_{name}", "gauge", doc, read, labels)


def _counter(name: str, doc: str, read: Callable[[Snapshot], Iterable[Sample]], *labels: str) -> Row:
    return Row(f"warmroute_{name}", "counter", doc, read, labels)


REFUSALS = ("unknown_model", "prompt_too_long", "no_eligible_worker", "saturated")
OUTCOMES = ("finished", "failed", "cancelled", "abandoned")

PROCESS = (
    _gauge("info", "Always 1; the label says which version runs.", lambda s: [((s.version,), 1)], "version"),
    _gauge("draining", "1 while what runs is finished and nothing new is taken.", _one(lambda s: s.draining)),
    _gauge(
        "affinity_approximate",
        "1 where no tokenizer is loaded, and prefixes are matched as text.",
        _one(lambda s: s.approximate),
    ),
)

ROUTER = (
    _counter("decisions", "Decisions that were booked, by the reason for the choice.", _decisions, "reason"),
    _counter("decided_prompt_tokens", "Prompt tokens of the booked decisions.", _router("prompt_tokens")),
    _counter("decided_overlap_tokens", "Overlap that they expected, in tokens.", _router("overlap_tokens")),
    _counter("refusals", "Requests for which there was no decision.", _named(*REFUSALS), "reason"),
    _counter(
        "reservations_closed",
        "Reservations that ended; abandoned ones were dropped without being closed.",
        _named(*OUTCOMES),
        "outcome",
    ),
    _gauge("reservations_open", "Reservations that are open.", _router("open")),
    _counter("reported_requests", "Requests whose worker reported its cached tokens.", _router("reported")),
    _counter("reported_prompt_tokens", "Their prompt tokens.", _router("reported_prompt_tokens")),
    _counter(
        "reported_cached_tokens",
        "Their cached tokens, as the workers said: over the prompt tokens, the true hit rate.",
        _router("reported_cached_tokens"),
    ),
    _counter(
        "reported_overlap_tokens",
        "The overlap that was expected of them: over the cached tokens, how true the index is.",
        _router("reported_overlap_tokens"),
    ),
    _gauge("index_bytes", "Memory of the prefix index.", _index("bytes")),
)

WORKERS = (
    _gauge("workers", "Workers by state.", _states, "state"),
    _gauge("worker_ready", "1 where the worker takes requests.", _ready, "worker"),
    _gauge("worker_requests", "Active requests.", _worker("requests"), "worker"),
    _gauge("worker_prefilling_requests", "Requests before the first token.", _worker("prefilling"), "worker"),
    _gauge("worker_queued_tokens", "Uncached prompt tokens of those.", _worker("queued_tokens"), "worker"),
    _gauge("worker_context_tokens", "Tokens of active contexts.", _worker("context_tokens"), "worker"),
    _gauge("worker_active_blocks", "Distinct KV blocks in active use.", _worker("active_blocks"), "worker"),
    _gauge("worker_wait_seconds", "Until dispatched prefill is done.", _worker("wait_seconds"), "worker"),
    _gauge(
        "worker_ttft_ratio",
        "Observed over predicted time to the first token, smoothed.",
        _worker("ttft_scale"),
        "worker",
    ),
    _gauge(
        "worker_confirmed_blocks", "Blocks that KV events confirmed.", _worker("confirmed_blocks"), "worker"
    ),
    _gauge(
        "worker_predicted_blocks",
        "Blocks that are assumed to be held.",
        _worker("predicted_blocks"),
        "worker",
    ),
)

SECTIONS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("The process", PROCESS),
    ("Decisions", ROUTER),
    ("Workers", WORKERS),
)
ROWS: tuple[Row, ...] = tuple(row for _, rows in SECTIONS for row in rows)
