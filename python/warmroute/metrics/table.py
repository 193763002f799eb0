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


def _proxy(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    return _one(lambda snapshot: snapshot.proxy[name])


def _proxy_by(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """Counters of the proxy that have names of their own."""
    return lambda snapshot: [((label,), count) for label, count in snapshot.proxy[name].items()]


def _requests(snapshot: Snapshot) -> Iterable[Sample]:
    return [
        ((kind, ending), count)
        for kind, endings in snapshot.proxy["requests"].items()
        for ending, count in endings.items()
    ]


# Sources of workers that are followed.
SOURCES = ("file", "kubernetes", "dns")
STATES = ("ready", "down", "draining")


def _states(snapshot: Snapshot) -> Iterator[Sample]:
    for state in STATES:
        yield (state,), sum(worker["state"] == state for worker in snapshot.router["workers"])


def _ready(snapshot: Snapshot) -> Iterable[Sample]:
    return [((worker["name"],), worker["state"] == "ready") for worker in snapshot.router["workers"]]


def _decisions(snapshot: Snapshot) -> Iterable[Sample]:
    return [((reason,), count) for reason, count in snapshot.router["decisions"].items()]


# Models that have samples of their own; a fleet of more is one of adapters, which are alike.
MODELS = 64


def _model_rungs(snapshot: Snapshot) -> Iterable[Sample]:
    return [((each.model, each.prompts, each.rung), 1) for each in snapshot.models[: 2 * MODELS]]


def _model_tokens(snapshot: Snapshot) -> Iterable[Sample]:
    return [((each.model, each.prompts, each.state), 1) for each in snapshot.models[: 2 * MODELS]]


def _checks(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: [((), snapshot.checks.get(name, 0))]


def _seen(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: [((), snapshot.seen.get(name, 0))]


def _seen_by(**names: str) -> Callable[[Snapshot], Iterable[Sample]]:
    """Several counters of seen prompts as one metric with a label."""
    return lambda snapshot: [((label,), snapshot.seen.get(name, 0)) for label, name in names.items()]


def _event(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: [((worker,), stats[name]) for worker, stats in snapshot.events.items()]


def _event_age(snapshot: Snapshot) -> Iterable[Sample]:
    ages = ((worker, stats["age_s"]) for worker, stats in snapshot.events.items())
    return [((worker,), age) for worker, age in ages if age is not None]


def _source(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: [((source,), snapshot.sources.get(source, {}).get(name, 0)) for source in SOURCES]


def _watched(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: [((worker,), told[name]) for worker, told in snapshot.fleet.items()]


def _grpc(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: [((), snapshot.grpc.get(name, 0))]


def _grpc_calls(snapshot: Snapshot) -> Iterable[Sample]:
    return list(snapshot.grpc.get("calls", {("Route", "OK"): 0}).items())


def _reservations(name: str) -> Callable[[Snapshot], Iterable[Sample]]:
    return lambda snapshot: [((), snapshot.grpc.get("reservations", {}).get(name, 0))]


def _errors(snapshot: Snapshot) -> Iterable[Sample]:
    workers = [worker["errors"] for worker in snapshot.router["workers"]]
    counts = [sum(counts) for counts in zip(*workers, strict=True)]
    bounds = snapshot.router["error_bounds"]
    yield (), {"bounds": bounds, "counts": counts or [0] * (len(bounds) + 1)}


def _lost(snapshot: Snapshot) -> Iterable[Sample]:
    workers = snapshot.router["workers"]
    return [((cause,), sum(worker["lost_tokens"][cause] for worker in workers)) for cause in LOSSES]


def _gauge(name: str, doc: str, read: Callable[[Snapshot], Iterable[Sample]], *labels: str) -> Row:
    return Row(f"warmroute_{name}", "gauge", doc, read, labels)


def _counter(name: str, doc: str, read: Callable[[Snapshot], Iterable[Sample]], *labels: str) -> Row:
    return Row(f"warmroute_{name}", "counter", doc, read, labels)


def _histogram(name: str, doc: str, read: Callable[[Snapshot], Iterable[Sample]]) -> Row:
    return Row(f"warmroute_{name}", "histogram", doc, read)


REFUSALS = ("unknown_model", "prompt_too_long", "no_eligible_worker", "saturated")
LOSSES = ("evicted", "never_stored", "chosen_for_load", "tokens_differ", "event_gap")
OUTCOMES = ("finished", "failed", "cancelled", "abandoned")

PROCESS = (
    _gauge("info", "Always 1; the label says which version runs.", lambda s: [((s.version,), 1)], "version"),
    _gauge("draining", "1 while what runs is finished and nothing new is taken.", _one(lambda s: s.draining)),
    _gauge(
        "affinity_approximate",
        "1 where chats of a model are matched as text: see warmroute_model_rung.",
        _one(lambda s: s.approximate),
    ),
    _gauge(
        "model_rung",
        "1 for how prompts of a model are had, where the request allows it: local, worker or text.",
        _model_rungs,
        "model",
        "prompts",
        "rung",
    ),
    _gauge(
        "model_tokens",
        "1 for what is known of tokens made here: verified, unverified, or refused as a worker makes others.",
        _model_tokens,
        "model",
        "prompts",
        "state",
    ),
    _counter(
        "token_checks",
        "Prompts that were made a second time, by Hugging Face's tokenizer, and compared.",
        _checks("checks"),
    ),
    _counter(
        "token_mismatches", "Those whose tokens were others; the log says where.", _checks("mismatches")
    ),
    _counter(
        "token_checks_skipped",
        "Prompts that were due while one was being checked, or in the rest after it.",
        _checks("skipped"),
    ),
    _counter("token_checks_failed", "Those that came to no end: a fault of the router.", _checks("failed")),
)

PROMPTS = (
    _gauge("prompt_cache_bytes", "Memory of what is kept of prompts that were seen.", _seen("bytes")),
    _counter(
        "prompt_cache_evicted",
        "Messages, lists of tools and pieces of text that are no longer kept.",
        _seen("evicted"),
    ),
    _counter(
        "prompt_cache_body_bytes",
        "Bytes of messages and tools, as sent: hit where they were seen, miss where they were read.",
        _seen_by(hit="known_raw_bytes", miss="read_raw_bytes"),
        "outcome",
    ),
    _counter(
        "prompt_cache_text_bytes",
        "Bytes of rendered text: hit where their tokens were known, miss where they were encoded.",
        _seen_by(hit="known_text_bytes", miss="encoded_text_bytes"),
        "outcome",
    ),
    _counter("chats_rendered_by_reference", "Chats whose seen messages were not read again.", _seen("chats")),
    _counter(
        "chats_rendered_in_full",
        "Other chats of models with a tokenizer, by whether the template or the request is why.",
        _seen_by(template="full_by_template", request="full_by_request"),
        "reason",
    ),
)

ROUTER = (
    _counter("decisions", "Decisions that were booked, by the reason for the choice.", _decisions, "reason"),
    _counter("decided_prompt_tokens", "Prompt tokens of the booked decisions.", _router("prompt_tokens")),
    _counter("decided_overlap_tokens", "Overlap that they expected, in tokens.", _router("overlap_tokens")),
    _counter(
        "decided_lower_tokens",
        "What the chosen workers' lower tiers had beyond it, in tokens.",
        _router("lower_tokens"),
    ),
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
        "The overlap that was expected of them, with lower tiers: over the cached tokens, how true it was.",
        _router("reported_overlap_tokens"),
    ),
    _gauge("index_bytes", "Memory of the prefix index.", _index("bytes")),
    _gauge("index_limit_bytes", "Memory that it may take.", _index("max_bytes")),
    _gauge("index_nodes", "Nodes of the index.", _index("nodes")),
    _gauge("index_blocks", "Distinct blocks in the index.", _index("blocks")),
    _gauge("index_pairs", "Pairs of a block and a worker that holds it.", _index("pairs")),
    _gauge("index_confirmed_pairs", "Pairs that KV events confirmed.", _index("confirmed")),
    _gauge("index_predicted_pairs", "Pairs that are assumed.", _index("predicted")),
    _gauge("index_lower_pairs", "Pairs of which the block is in a lower tier.", _index("lower")),
    _counter("index_evicted_blocks", "Blocks that left for the budget.", _index("evicted_blocks")),
    _counter("index_cut_blocks", "Blocks that were not taken in for want of room.", _index("cut_blocks")),
    _counter("index_expired_pairs", "Predictions whose lifetime ended.", _index("expired_blocks")),
    _counter("index_capacity_pairs", "Predictions beyond a worker's KV blocks.", _index("capacity_dropped")),
)

WORKERS = (
    _gauge("workers", "Workers by state.", _states, "state"),
    _gauge("worker_ready", "1 where the worker takes requests.", _ready, "worker"),
    _gauge("worker_requests", "Active requests.", _worker("requests"), "worker"),
    _gauge(
        "worker_other_requests",
        "Requests that the worker's own metrics show and this router did not send.",
        _worker("other_requests"),
        "worker",
    ),
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
        "worker_probe_failures", "Looks at the worker in a row that failed.", _watched("failures"), "worker"
    ),
    _gauge(
        "worker_slow",
        "1 where the worker does not answer looks in time, and its requests run all the same.",
        _watched("slow"),
        "worker",
    ),
    _gauge(
        "worker_frozen",
        "1 where the worker answers looks, and its engine makes no step while requests run.",
        _watched("frozen"),
        "worker",
    ),
    _gauge(
        "worker_scraped", "1 where the worker's metrics were read last time.", _watched("scraped"), "worker"
    ),
    _counter(
        "worker_scrapes", "Pages of the worker's metrics that were read.", _watched("scrapes"), "worker"
    ),
    _counter(
        "worker_scrape_failures",
        "Pages that could not be had, or do not tell the load; nothing else follows from it.",
        _watched("scrape_failures"),
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
    _gauge(
        "worker_lower_blocks",
        "Blocks in the worker's lower tiers: its host's memory, a disk.",
        _worker("lower_blocks"),
        "worker",
    ),
)

DISCOVERY = (
    _gauge("discovery_workers", "Workers that a source lists.", _source("workers"), "source"),
    _gauge(
        "discovery_failing",
        "1 where a source does not answer, or with something that is not used; what it said last stays.",
        _source("failing"),
        "source",
    ),
    _counter("discovery_failures", "Answers of a source that were not used.", _source("failures"), "source"),
    _gauge(
        "discovery_last_good_timestamp_seconds",
        "When the last good answer came, in seconds since 1970; 0 where there was none.",
        _source("good_at"),
        "source",
    ),
)

EVENTS = (
    _gauge(
        "worker_following",
        "1 where the worker's KV events are applied as they come.",
        _worker("following"),
        "worker",
    ),
    _gauge(
        "worker_suspect",
        "1 where predictions were too high many times in a row; the log says what to change.",
        _worker("suspect"),
        "worker",
    ),
    _histogram(
        "prediction_error_blocks",
        "What workers report as cached less what was predicted, in blocks; -1 is one predicted too many.",
        _errors,
    ),
    _counter(
        "lost_tokens",
        "Tokens that were predicted or held elsewhere and not cached, by cause.",
        _lost,
        "cause",
    ),
    _counter("kv_event_batches", "Batches of KV events that were applied.", _event("batches"), "worker"),
    _counter("kv_event_replays", "Times that missing batches were asked for.", _event("replays"), "worker"),
    _counter(
        "kv_event_losses",
        "Times that they could not be had: what was confirmed is a guess since.",
        _event("losses"),
        "worker",
    ),
    _counter(
        "kv_event_restarts",
        "Times that another process was found in the worker's place.",
        _event("restarts"),
        "worker",
    ),
    _counter("kv_event_faults", "Events that could not be read.", _event("faults"), "worker"),
    _counter(
        "kv_event_orphan_blocks",
        "Blocks that could not be placed: the block before them is not known.",
        _event("orphan_blocks"),
        "worker",
    ),
    _gauge("kv_event_blocks", "Blocks that the worker holds, by its events.", _event("blocks"), "worker"),
    _gauge("kv_event_bytes", "Memory for the worker's names of blocks.", _event("bytes"), "worker"),
    _gauge("kv_event_catching_up", "1 while missing batches are asked for.", _event("catching_up"), "worker"),
    _gauge("kv_event_age_seconds", "How long ago the last batch came.", _event_age, "worker"),
)

PROXY = (
    _counter("requests", "Requests that ended, by what was asked and how.", _requests, "kind", "ending"),
    _gauge("requests_open", "Requests that are being answered.", _proxy("requests_open")),
    _histogram("ttft_seconds", "From a request's head to the first byte of its stream.", _proxy("ttft")),
    _histogram("request_seconds", "From a request's head to the end of its reply.", _proxy("duration")),
    _histogram("decision_seconds", "To read a body and choose a worker.", _proxy("decision")),
    _counter("proxy_refusals", "Requests that the proxy refused itself.", _proxy_by("refusals"), "reason"),
    _counter("prompts", "Requests routed, by how their prompt was had.", _proxy_by("prompts"), "rung"),
    _counter(
        "inexact_prompts",
        "Those whose tokens could not be made here, by the reason.",
        _proxy_by("inexact"),
        "reason",
    ),
    _counter(
        "worker_tokenizations",
        "What came of asking workers for the tokens of such prompts.",
        _proxy_by("asked"),
        "outcome",
    ),
    _counter(
        "prompts_encoded_elsewhere",
        "Those made on a thread that may take its time, because too much of them was not seen before.",
        _proxy("encoded_elsewhere"),
    ),
    _gauge("worker_tokenizations_bytes", "Their answers that are kept.", _proxy("worker_tokens_bytes")),
    _counter(
        "departures", "Clients that left before the end, by how far it was.", _proxy_by("departures"), "phase"
    ),
    _counter("retries", "Requests sent once more to another worker.", _proxy_by("retries"), "reason"),
    _counter("retries_denied", "Retries that the budget did not allow.", _proxy("retries_denied")),
    _counter(
        "stale_connections",
        "Kept connections that a worker had closed; the request went again on a fresh one.",
        _proxy("stale_connections"),
    ),
    _counter("received_bytes", "Bytes of request bodies.", _proxy("bytes_received")),
    _counter("sent_bytes", "Bytes of reply bodies.", _proxy("bytes_sent")),
    _counter("connections", "Client connections taken.", _proxy("connections")),
    _gauge("connections_open", "Client connections that are open.", _proxy("connections_open")),
    _counter(
        "slow_clients", "Client connections closed because the client was too slow.", _proxy("timeouts")
    ),
    _counter("worker_connects", "Connections made to workers.", _proxy("worker_connects")),
    _counter(
        "worker_connect_failures", "Connections that could not be made.", _proxy("worker_connect_failures")
    ),
    _counter("worker_reuses", "Requests sent on a kept connection.", _proxy("worker_reuses")),
)

GRPC = (
    _counter("grpc_calls", "gRPC calls that ended, by method and status.", _grpc_calls, "method", "code"),
    _gauge("grpc_calls_open", "gRPC calls that are open.", _grpc("calls_open")),
    _counter("grpc_stream_messages", "Messages of callers on RouteStream.", _grpc("stream_messages")),
    _counter("grpc_chunks", "Messages of Generate that were made of workers' events.", _grpc("chunks")),
    _counter(
        "grpc_retries",
        "Requests of Generate that went to another worker after the first gave nothing.",
        _grpc("retries"),
    ),
    _counter("grpc_retries_denied", "Such retries that the budget did not allow.", _grpc("retries_denied")),
    _counter(
        "grpc_later_attempts",
        "Requests that their callers had tried before.",
        _reservations("later_attempts"),
    ),
    _gauge("grpc_streams_open", "RouteStreams that are open.", _reservations("streams")),
    _gauge("grpc_reservations_open", "Reservations of gRPC callers that are open.", _reservations("open")),
    _counter(
        "grpc_reservations_expired",
        "Those that nobody reported within their lease time.",
        _reservations("expired"),
    ),
    _counter(
        "grpc_reservations_left",
        "Those that were open when their stream ended.",
        _reservations("left_with_stream"),
    ),
    _counter(
        "grpc_reservations_refused",
        "Requests refused because as many reservations were open as may be.",
        _reservations("refused"),
    ),
)

SECTIONS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("The process", PROCESS),
    ("Seen prompts", PROMPTS),
    ("Decisions", ROUTER),
    ("Workers", WORKERS),
    ("Discovery", DISCOVERY),
    ("KV events and truth", EVENTS),
    ("HTTP", PROXY),
    ("gRPC", GRPC),
)
ROWS: tuple[Row, ...] = tuple(row for _, rows in SECTIONS for row in rows)
