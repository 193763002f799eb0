"""Where the samples of the metrics are found in a snapshot."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from warmroute.metrics.row import Sample, Snapshot

REFUSALS = ("unknown_model", "prompt_too_long", "no_eligible_worker", "saturated")
LOSSES = ("evicted", "never_stored", "chosen_for_load", "tokens_differ", "event_gap")
OUTCOMES = ("finished", "failed", "cancelled", "abandoned")


def one(pick: Callable[[Snapshot], Any]) -> Callable[[Snapshot], Iterable[Sample]]:
    """A metric without labels."""
    return lambda snapshot: [((), pick(snapshot))]


def router(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """A counter of the router."""
    return one(lambda snapshot: snapshot.router[name])


def index(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """A counter of the prefix index."""
    return one(lambda snapshot: snapshot.router["index"][name])


def named(*names: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """Several counters of the router as one metric with a label."""
    return lambda snapshot: [((name,), snapshot.router[name]) for name in names]


def worker(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """A counter of each worker in the router."""
    return lambda snapshot: (((worker["name"],), worker[name]) for worker in snapshot.router["workers"])


def proxy(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """A counter of the proxy."""
    return one(lambda snapshot: snapshot.proxy[name])


def proxy_by(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """Counters of the proxy that have names of their own."""
    return lambda snapshot: [((label,), count) for label, count in snapshot.proxy[name].items()]


def requests(snapshot: Snapshot) -> Iterable[Sample]:
    """Requests by kind and ending."""
    return [
        ((kind, ending), count)
        for kind, endings in snapshot.proxy["requests"].items()
        for ending, count in endings.items()
    ]


# Sources of workers that are followed.
SOURCES = ("file", "kubernetes", "dns")
STATES = ("ready", "down", "draining")


def states(snapshot: Snapshot) -> Iterator[Sample]:
    """Workers by state."""
    for state in STATES:
        yield (state,), sum(worker["state"] == state for worker in snapshot.router["workers"])


def ready(snapshot: Snapshot) -> Iterable[Sample]:
    """Whether each worker takes requests."""
    return (((worker["name"],), worker["state"] == "ready") for worker in snapshot.router["workers"])


def decisions(snapshot: Snapshot) -> Iterable[Sample]:
    """Decisions by their reason."""
    return [((reason,), count) for reason, count in snapshot.router["decisions"].items()]


# Models that have samples of their own; a fleet of more is one of adapters, which are alike.
MODELS = 64


def model_rungs(snapshot: Snapshot) -> Iterable[Sample]:
    """How the prompts of each model are had."""
    return [((each.model, each.prompts, each.rung), 1) for each in snapshot.models[: 2 * MODELS]]


def model_tokens(snapshot: Snapshot) -> Iterable[Sample]:
    """What is known of each model's tokens."""
    return [((each.model, each.prompts, each.state), 1) for each in snapshot.models[: 2 * MODELS]]


def checks(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """A counter of the checks of tokens."""
    return lambda snapshot: [((), snapshot.checks.get(name, 0))]


def seen(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """A counter of seen prompts."""
    return lambda snapshot: [((), snapshot.seen.get(name, 0))]


def seen_by(**names: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """Several counters of seen prompts as one metric with a label."""
    return lambda snapshot: [((label,), snapshot.seen.get(name, 0)) for label, name in names.items()]


def event(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """A counter of each followed worker's events."""
    return lambda snapshot: (((worker,), stats[name]) for worker, stats in snapshot.events.items())


def event_age(snapshot: Snapshot) -> Iterable[Sample]:
    """How long ago each followed worker's last batch came, where one came."""
    ages = ((worker, stats["age_s"]) for worker, stats in snapshot.events.items())
    return (((worker,), age) for worker, age in ages if age is not None)


def source(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """How each source of workers fares."""
    return lambda snapshot: [((source,), snapshot.sources.get(source, {}).get(name, 0)) for source in SOURCES]


def watched(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """What the fleet sees of each worker."""
    return lambda snapshot: (((worker,), told[name]) for worker, told in snapshot.fleet.items())


def grpc(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """A counter of the gRPC endpoint."""
    return lambda snapshot: [((), snapshot.grpc.get(name, 0))]


def grpc_calls(snapshot: Snapshot) -> Iterable[Sample]:
    """gRPC calls by method and status."""
    return list(snapshot.grpc.get("calls", {("Route", "OK"): 0}).items())


def reservations(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """A counter of the reservations of gRPC callers."""
    return lambda snapshot: [((), snapshot.grpc.get("reservations", {}).get(name, 0))]


def errors(snapshot: Snapshot) -> Iterable[Sample]:
    """How far predictions were off, over all workers."""
    workers = [worker["errors"] for worker in snapshot.router["workers"]]
    counts = [sum(counts) for counts in zip(*workers, strict=True)]
    bounds = snapshot.router["error_bounds"]
    yield (), {"bounds": bounds, "counts": counts or [0] * (len(bounds) + 1)}


def lost(snapshot: Snapshot) -> Iterable[Sample]:
    """Lost tokens by cause, over all workers."""
    workers = snapshot.router["workers"]
    return [((cause,), sum(worker["lost_tokens"][cause] for worker in workers)) for cause in LOSSES]


def task_failures(snapshot: Snapshot) -> Iterable[Sample]:
    """Failures of tasks by kind."""
    return [((kind,), count) for kind, count in snapshot.tasks.items()]
