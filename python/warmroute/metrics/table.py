"""The metrics of warmroute, each defined here and nowhere else; docs/metrics.md is made from this table."""

from warmroute.metrics import read
from warmroute.metrics.row import Read, Row


def _gauge(name: str, doc: str, source: Read, *labels: str) -> Row:
    return Row(f"warmroute_{name}", "gauge", doc, source, labels)


def _counter(name: str, doc: str, source: Read, *labels: str) -> Row:
    return Row(f"warmroute_{name}", "counter", doc, source, labels)


def _histogram(name: str, doc: str, source: Read) -> Row:
    return Row(f"warmroute_{name}", "histogram", doc, source)


PROCESS = (
    _gauge("info", "Always 1; the label says which version runs.", lambda s: [((s.version,), 1)], "version"),
    _gauge(
        "draining", "1 while what runs is finished and nothing new is taken.", read.one(lambda s: s.draining)
    ),
    _gauge(
        "affinity_approximate",
        "1 where chats of a model are matched as text: see warmroute_model_rung.",
        read.one(lambda s: s.approximate),
    ),
    _gauge(
        "model_rung",
        "1 for how prompts of a model are had, where the request allows it: local, worker or text.",
        read.model_rungs,
        "model",
        "prompts",
        "rung",
    ),
    _gauge(
        "model_tokens",
        "1 for what is known of tokens made here: verified, unverified, or refused as a worker makes others.",
        read.model_tokens,
        "model",
        "prompts",
        "state",
    ),
    _counter(
        "token_checks",
        "Prompts that were made a second time, by Hugging Face's tokenizer, and compared.",
        read.checks("checks"),
    ),
    _counter(
        "token_mismatches", "Those whose tokens were others; the log says where.", read.checks("mismatches")
    ),
    _counter(
        "token_checks_skipped",
        "Prompts that were due while one was being checked, or in the rest after it.",
        read.checks("skipped"),
    ),
    _counter(
        "token_checks_failed", "Those that came to no end: a fault of the router.", read.checks("failed")
    ),
    _counter(
        "task_failures",
        "Tasks that failed by a fault of the router and were started again; the log has the traceback.",
        read.task_failures,
        "task",
    ),
)

PROMPTS = (
    _gauge("prompt_cache_bytes", "Memory of what is kept of prompts that were seen.", read.seen("bytes")),
    _counter(
        "prompt_cache_evicted",
        "Messages, lists of tools and pieces of text that are no longer kept.",
        read.seen("evicted"),
    ),
    _counter(
        "prompt_cache_body_bytes",
        "Bytes of messages and tools, as sent: hit where they were seen, miss where they were read.",
        read.seen_by(hit="known_raw_bytes", miss="read_raw_bytes"),
        "outcome",
    ),
    _counter(
        "prompt_cache_text_bytes",
        "Bytes of rendered text: hit where their tokens were known, miss where they were encoded.",
        read.seen_by(hit="known_text_bytes", miss="encoded_text_bytes"),
        "outcome",
    ),
    _counter(
        "chats_rendered_by_reference", "Chats whose seen messages were not read again.", read.seen("chats")
    ),
    _counter(
        "chats_rendered_in_full",
        "Other chats of models with a tokenizer, by whether the template or the request is why.",
        read.seen_by(template="full_by_template", request="full_by_request"),
        "reason",
    ),
)

ROUTER = (
    _counter(
        "decisions", "Decisions that were booked, by the reason for the choice.", read.decisions, "reason"
    ),
    _counter("decided_prompt_tokens", "Prompt tokens of the booked decisions.", read.router("prompt_tokens")),
    _counter(
        "decided_overlap_tokens", "Overlap that they expected, in tokens.", read.router("overlap_tokens")
    ),
    _counter(
        "decided_lower_tokens",
        "What the chosen workers' lower tiers had beyond it, in tokens.",
        read.router("lower_tokens"),
    ),
    _counter("refusals", "Requests for which there was no decision.", read.named(*read.REFUSALS), "reason"),
    _counter(
        "reservations_closed",
        "Reservations that ended; abandoned ones were dropped without being closed.",
        read.named(*read.OUTCOMES),
        "outcome",
    ),
    _gauge("reservations_open", "Reservations that are open.", read.router("open")),
    _counter(
        "reported_requests", "Requests whose worker reported its cached tokens.", read.router("reported")
    ),
    _counter("reported_prompt_tokens", "Their prompt tokens.", read.router("reported_prompt_tokens")),
    _counter(
        "reported_cached_tokens",
        "Their cached tokens, as the workers said: over the prompt tokens, the true hit rate.",
        read.router("reported_cached_tokens"),
    ),
    _counter(
        "reported_overlap_tokens",
        "The overlap that was expected of them, with lower tiers: over the cached tokens, how true it was.",
        read.router("reported_overlap_tokens"),
    ),
    _gauge("index_bytes", "Memory of the prefix index.", read.index("bytes")),
    _gauge("index_limit_bytes", "Memory that it may take.", read.index("max_bytes")),
    _gauge("index_nodes", "Nodes of the index.", read.index("nodes")),
    _gauge("index_blocks", "Distinct blocks in the index.", read.index("blocks")),
    _gauge("index_pairs", "Pairs of a block and a worker that holds it.", read.index("pairs")),
    _gauge("index_confirmed_pairs", "Pairs that KV events confirmed.", read.index("confirmed")),
    _gauge("index_predicted_pairs", "Pairs that are assumed.", read.index("predicted")),
    _gauge("index_lower_pairs", "Pairs of which the block is in a lower tier.", read.index("lower")),
    _counter("index_evicted_blocks", "Blocks that left for the budget.", read.index("evicted_blocks")),
    _counter("index_cut_blocks", "Blocks that were not taken in for want of room.", read.index("cut_blocks")),
    _counter("index_expired_pairs", "Predictions whose lifetime ended.", read.index("expired_blocks")),
    _counter(
        "index_capacity_pairs", "Predictions beyond a worker's KV blocks.", read.index("capacity_dropped")
    ),
)

WORKERS = (
    _gauge("workers", "Workers by state.", read.states, "state"),
    _gauge("worker_ready", "1 where the worker takes requests.", read.ready, "worker"),
    _gauge("worker_requests", "Active requests.", read.worker("requests"), "worker"),
    _gauge(
        "worker_other_requests",
        "Requests that the worker's own metrics show and this router did not send.",
        read.worker("other_requests"),
        "worker",
    ),
    _gauge(
        "worker_prefilling_requests", "Requests before the first token.", read.worker("prefilling"), "worker"
    ),
    _gauge(
        "worker_queued_tokens", "Uncached prompt tokens of those.", read.worker("queued_tokens"), "worker"
    ),
    _gauge("worker_context_tokens", "Tokens of active contexts.", read.worker("context_tokens"), "worker"),
    _gauge(
        "worker_active_blocks", "Distinct KV blocks in active use.", read.worker("active_blocks"), "worker"
    ),
    _gauge("worker_wait_seconds", "Until dispatched prefill is done.", read.worker("wait_seconds"), "worker"),
    _gauge(
        "worker_ttft_ratio",
        "Observed over predicted time to the first token, smoothed.",
        read.worker("ttft_scale"),
        "worker",
    ),
    _gauge(
        "worker_probe_failures",
        "Looks at the worker in a row that failed.",
        read.watched("failures"),
        "worker",
    ),
    _gauge(
        "worker_slow",
        "1 where the worker does not answer looks in time, and its requests run all the same.",
        read.watched("slow"),
        "worker",
    ),
    _gauge(
        "worker_frozen",
        "1 where the worker answers looks, and its engine makes no step while requests run.",
        read.watched("frozen"),
        "worker",
    ),
    _gauge(
        "worker_scraped",
        "1 where the worker's metrics were read last time.",
        read.watched("scraped"),
        "worker",
    ),
    _counter(
        "worker_scrapes", "Pages of the worker's metrics that were read.", read.watched("scrapes"), "worker"
    ),
    _counter(
        "worker_scrape_failures",
        "Pages that could not be had, or do not tell the load; nothing else follows from it.",
        read.watched("scrape_failures"),
        "worker",
    ),
    _gauge(
        "worker_confirmed_blocks",
        "Blocks that KV events confirmed.",
        read.worker("confirmed_blocks"),
        "worker",
    ),
    _gauge(
        "worker_predicted_blocks",
        "Blocks that are assumed to be held.",
        read.worker("predicted_blocks"),
        "worker",
    ),
    _gauge(
        "worker_lower_blocks",
        "Blocks in the worker's lower tiers: its host's memory, a disk.",
        read.worker("lower_blocks"),
        "worker",
    ),
)

DISCOVERY = (
    _gauge("discovery_workers", "Workers that a source lists.", read.source("workers"), "source"),
    _gauge(
        "discovery_failing",
        "1 where a source does not answer, or with something that is not used; what it said last stays.",
        read.source("failing"),
        "source",
    ),
    _counter(
        "discovery_failures", "Answers of a source that were not used.", read.source("failures"), "source"
    ),
    _gauge(
        "discovery_last_good_timestamp_seconds",
        "When the last good answer came, in seconds since 1970; 0 where there was none.",
        read.source("good_at"),
        "source",
    ),
)

EVENTS = (
    _gauge(
        "worker_following",
        "1 where the worker's KV events are applied as they come.",
        read.worker("following"),
        "worker",
    ),
    _gauge(
        "worker_suspect",
        "1 where predictions were too high many times in a row; the log says what to change.",
        read.worker("suspect"),
        "worker",
    ),
    _histogram(
        "prediction_error_blocks",
        "What workers report as cached less what was predicted, in blocks; -1 is one predicted too many.",
        read.errors,
    ),
    _counter(
        "lost_tokens",
        "Tokens that were predicted or held elsewhere and not cached, by cause.",
        read.lost,
        "cause",
    ),
    _counter("kv_event_batches", "Batches of KV events that were applied.", read.event("batches"), "worker"),
    _counter(
        "kv_event_replays", "Times that missing batches were asked for.", read.event("replays"), "worker"
    ),
    _counter(
        "kv_event_losses",
        "Times that they could not be had, or named more blocks than there are: all is a guess since.",
        read.event("losses"),
        "worker",
    ),
    _counter(
        "kv_event_restarts",
        "Times that another process was found in the worker's place.",
        read.event("restarts"),
        "worker",
    ),
    _counter("kv_event_faults", "Events that could not be read.", read.event("faults"), "worker"),
    _counter(
        "kv_event_orphan_blocks",
        "Blocks that could not be placed: the block before them is not known.",
        read.event("orphan_blocks"),
        "worker",
    ),
    _counter(
        "kv_event_forgotten_blocks",
        "Blocks that were forgotten, all at once: more than the worker has, or than names have room for.",
        read.event("forgotten_blocks"),
        "worker",
    ),
    _gauge("kv_event_blocks", "Blocks that the worker holds, by its events.", read.event("blocks"), "worker"),
    _gauge("kv_event_bytes", "Memory for the worker's names of blocks.", read.event("bytes"), "worker"),
    _gauge(
        "kv_event_catching_up", "1 while missing batches are asked for.", read.event("catching_up"), "worker"
    ),
    _gauge("kv_event_age_seconds", "How long ago the last batch came.", read.event_age, "worker"),
)

PROXY = (
    _counter("requests", "Requests that ended, by what was asked and how.", read.requests, "kind", "ending"),
    _gauge("requests_open", "Requests that are being answered.", read.proxy("requests_open")),
    _histogram("ttft_seconds", "From a request's head to the first byte of its stream.", read.proxy("ttft")),
    _histogram("request_seconds", "From a request's head to the end of its reply.", read.proxy("duration")),
    _histogram("decision_seconds", "To read a body and choose a worker.", read.proxy("decision")),
    _counter(
        "proxy_refusals", "Requests that the proxy refused itself.", read.proxy_by("refusals"), "reason"
    ),
    _counter("prompts", "Requests routed, by how their prompt was had.", read.proxy_by("prompts"), "rung"),
    _counter(
        "inexact_prompts",
        "Those whose tokens could not be made here, by the reason.",
        read.proxy_by("inexact"),
        "reason",
    ),
    _counter(
        "worker_tokenizations",
        "What came of asking workers for the tokens of such prompts.",
        read.proxy_by("asked"),
        "outcome",
    ),
    _counter(
        "prompts_encoded_elsewhere",
        "Those made on a thread that may take its time, because too much of them was not seen before.",
        read.proxy("encoded_elsewhere"),
    ),
    _gauge("worker_tokenizations_bytes", "Their answers that are kept.", read.proxy("worker_tokens_bytes")),
    _counter(
        "departures",
        "Clients that left before the end, by how far it was.",
        read.proxy_by("departures"),
        "phase",
    ),
    _counter("retries", "Requests sent once more to another worker.", read.proxy_by("retries"), "reason"),
    _counter("retries_denied", "Retries that the budget did not allow.", read.proxy("retries_denied")),
    _counter(
        "stale_connections",
        "Kept connections that a worker had closed; the request went again on a fresh one.",
        read.proxy("stale_connections"),
    ),
    _counter("received_bytes", "Bytes of request bodies.", read.proxy("bytes_received")),
    _counter("sent_bytes", "Bytes of reply bodies.", read.proxy("bytes_sent")),
    _counter("connections", "Client connections taken.", read.proxy("connections")),
    _gauge("connections_open", "Client connections that are open.", read.proxy("connections_open")),
    _counter(
        "slow_clients", "Client connections closed because the client was too slow.", read.proxy("timeouts")
    ),
    _counter("worker_connects", "Connections made to workers.", read.proxy("worker_connects")),
    _counter(
        "worker_connect_failures",
        "Connections that could not be made.",
        read.proxy("worker_connect_failures"),
    ),
    _counter("worker_reuses", "Requests sent on a kept connection.", read.proxy("worker_reuses")),
)

GRPC = (
    _counter("grpc_calls", "gRPC calls that ended, by method and status.", read.grpc_calls, "method", "code"),
    _gauge("grpc_calls_open", "gRPC calls that are open.", read.grpc("calls_open")),
    _counter("grpc_stream_messages", "Messages of callers on RouteStream.", read.grpc("stream_messages")),
    _counter("grpc_chunks", "Messages of Generate that were made of workers' events.", read.grpc("chunks")),
    _counter(
        "grpc_retries",
        "Requests of Generate that went to another worker after the first gave nothing.",
        read.grpc("retries"),
    ),
    _counter(
        "grpc_retries_denied", "Such retries that the budget did not allow.", read.grpc("retries_denied")
    ),
    _counter(
        "grpc_later_attempts",
        "Requests that their callers had tried before.",
        read.reservations("later_attempts"),
    ),
    _gauge("grpc_streams_open", "RouteStreams that are open.", read.reservations("streams")),
    _gauge(
        "grpc_reservations_open", "Reservations of gRPC callers that are open.", read.reservations("open")
    ),
    _counter(
        "grpc_reservations_expired",
        "Those that nobody reported within their lease time.",
        read.reservations("expired"),
    ),
    _counter(
        "grpc_reservations_left",
        "Those that were open when their stream ended.",
        read.reservations("left_with_stream"),
    ),
    _counter(
        "grpc_reservations_refused",
        "Requests refused because as many reservations were open as may be.",
        read.reservations("refused"),
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
