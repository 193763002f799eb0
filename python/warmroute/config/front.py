"""The options of the front itself: where it listens, how prompts become tokens, the fleet, the logs."""

from dataclasses import dataclass

from warmroute.config.option import option
from warmroute.native import PROMPT_CACHE_BYTES

PORT_MAX = 65_535
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Where `warmroute serve` listens, and how it ends."""

    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(8080, "Port to listen on; 0 takes a free one.", minimum=0, maximum=PORT_MAX)
    admin_key_file: str | None = option(
        None,
        "A file with the key that whoever adds, drains or removes workers over HTTP must send, as "
        "`Authorization: Bearer KEY`. Without it that is possible from this machine alone, and not at all "
        "where `host` is more than that.",
    )
    drain_timeout_ms: int = option(
        30_000,
        "How long running requests may go on after SIGTERM or SIGINT. A second signal ends at once.",
        minimum=0,
        maximum=DAY_MS,
        unit="ms",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcOptions:
    """The gRPC endpoint."""

    grpc_host: str = option("127.0.0.1", "Address of the gRPC endpoint.")
    grpc_port: int | None = option(
        None,
        "Port of the gRPC endpoint; 0 takes a free one. Without it there is none.",
        minimum=0,
        maximum=PORT_MAX,
    )
    grpc_tls_cert: str | None = option(
        None, "A PEM file with the certificate chain. It is read again when it has changed."
    )
    grpc_tls_key: str | None = option(None, "A PEM file with the certificate's key.")
    grpc_tls_client_ca: str | None = option(
        None, "A PEM file with authorities. Clients then need a certificate of one of them (mutual TLS)."
    )
    grpc_api_keys_file: str | None = option(
        None,
        "A file with API keys, one a line. Calls then need one of them, as `authorization: Bearer KEY` or "
        "`x-api-key: KEY`; health checks and reflection need none.",
    )
    grpc_api_keys_env: str | None = option(
        None, "Name of an environment variable with API keys, separated by commas; besides those of the file."
    )
    grpc_max_message_bytes: int = option(
        16 << 20, "The longest message.", minimum=1 << 10, maximum=2**31 - 1, unit="bytes"
    )
    grpc_max_calls: int = option(
        10_000, "Calls that may be open at once; more are refused.", minimum=1, maximum=1_000_000
    )
    grpc_keepalive_ms: int = option(
        20_000,
        "Silence of a client after which it is asked whether it is there.",
        minimum=1_000,
        maximum=DAY_MS,
        unit="ms",
    )
    grpc_keepalive_timeout_ms: int = option(
        10_000,
        "How long its answer may take; then its calls are cancelled.",
        minimum=100,
        maximum=DAY_MS,
        unit="ms",
    )
    grpc_lease_time_ms: int = option(
        60_000,
        "How long a reservation made by `Route` lasts without a report; then it is abandoned.",
        minimum=100,
        maximum=DAY_MS,
        unit="ms",
    )
    grpc_max_reservations: int = option(
        65_536,
        "Reservations of gRPC callers that may be open at once; more are refused.",
        minimum=1,
        maximum=10_000_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """How prompts become tokens."""

    tokenizer: tuple[str, ...] = option(
        (),
        "A Hugging Face folder (`tokenizer.json` and chat template), a `tokenizer.json`, or a hub id: WHERE "
        "for every model, MODEL=WHERE for one; repeat the flag for more, or separate them by commas in the "
        "environment; a text, a list or a table in the file. Without it prefixes are matched as text, and "
        "affinity is approximate.",
    )
    chat_template: str | None = option(
        None,
        "A file with the chat template, where workers use another than the tokenizer's. It is for the models "
        "that have no tokenizer of their own.",
    )
    cache_bytes: int = option(
        PROMPT_CACHE_BYTES,
        "What each tokenizer may keep of prompts that were seen, so that they are neither rendered, encoded "
        "nor hashed again; 0 keeps nothing.",
        minimum=0,
        maximum=1 << 40,
        unit="bytes",
    )
    verify_timeout_ms: int = option(
        5_000,
        "How long a worker that joins may take to give its tokens of some thirty short prompts, which are "
        "compared with ours; 0 compares nothing.",
        minimum=0,
        maximum=DAY_MS,
        unit="ms",
    )
    token_check_every: int = option(
        256,
        "One in so many prompts whose tokens are made here is made again by Hugging Face's tokenizer, on a "
        "thread of its own that takes at most a hundredth of a core; 0 checks none.",
        minimum=0,
        maximum=2**31 - 1,
    )
    chat_template_content_format: str = option(
        "auto",
        "How the chat template sees the content of a message, as vLLM's flag of that name.",
        choices=("auto", "string", "openai"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """The workers, and how their health is watched."""

    worker: tuple[str, ...] = option(
        (),
        "A worker, as URL or NAME=URL; repeat the flag for more, or separate them by commas in the "
        "environment. Replaces the `[[worker]]` entries of the file.",
    )
    workers_file: str | None = option(
        None,
        "A file with workers that is watched: `[[worker]]` tables, or JSON of the same shape where it ends "
        "in `.json`. One that cannot be read or understood changes nothing.",
    )
    workers_file_interval_ms: int = option(
        1_000, "How often that file is read.", minimum=10, maximum=DAY_MS, unit="ms"
    )
    dns: tuple[str, ...] = option(
        (),
        "A name whose addresses are workers: HOST:PORT for A (or AAAA) records, as of a headless service, or "
        "_SERVICE._tcp.HOST for SRV records; repeat the flag for more.",
    )
    dns_server: str | None = option(
        None, "The resolver that is asked, as IP or IP:PORT; without it those of the system."
    )
    dns_timeout_ms: int = option(
        3_000, "How long one question may take.", minimum=10, maximum=600_000, unit="ms"
    )
    dns_min_interval_ms: int = option(
        1_000, "The least time between two lookups, whatever TTL says.", minimum=10, maximum=DAY_MS, unit="ms"
    )
    dns_max_interval_ms: int = option(
        30_000, "The most time between two lookups, whatever TTL says.", minimum=10, maximum=DAY_MS, unit="ms"
    )
    dns_keep_ms: int = option(
        300_000,
        "How long a name may give no address before those of its workers that are down are forgotten. One "
        "that is up stays.",
        minimum=0,
        maximum=DAY_MS,
        unit="ms",
    )
    kubernetes_service: str | None = option(
        None,
        "A Kubernetes service whose endpoints are workers; needs `pip install warmroute[kubernetes]` and the "
        "right to list and watch EndpointSlices.",
    )
    kubernetes_selector: str | None = option(
        None,
        "Labels of pods that are workers, such as `app=vllm`, in place of a service; needs the right to list "
        "and watch pods.",
    )
    kubernetes_namespace: str | None = option(None, "Their namespace; without it the router's own.")
    kubernetes_port: str | None = option(
        None, "Their port, by name or number; without it the only one, or the one that is called `http`."
    )
    kubernetes_timeout_ms: int = option(
        10_000, "How long the cluster may take to answer.", minimum=10, maximum=600_000, unit="ms"
    )
    kubernetes_resync_ms: int = option(
        300_000,
        "How often everything is listed again while changes are watched: some watches go silent.",
        minimum=100,
        maximum=DAY_MS,
        unit="ms",
    )
    worker_key_file: str | None = option(
        None,
        "A file with the key that the workers ask for (`vllm serve --api-key`): with it the router asks what "
        "they serve and how they tokenize, and sends it with `Generate` where callers of gRPC have a key or "
        "a certificate. Requests of HTTP clients bring their own.",
    )
    probe_interval_ms: int = option(
        2_000, "Time between two looks at a worker's `/health`.", minimum=50, maximum=DAY_MS, unit="ms"
    )
    probe_timeout_ms: int = option(
        2_000, "How long a worker may take to answer a look.", minimum=10, maximum=600_000, unit="ms"
    )
    probe_jitter: float = option(
        0.2, "Share of the interval by which looks are moved at random.", minimum=0, maximum=1
    )
    probe_concurrency: int = option(
        32,
        "Looks under way at the same time; and as many workers that join, and as many that are up, are asked "
        "at the same time what they serve.",
        minimum=1,
        maximum=4_096,
    )
    probe_failures: int = option(
        3, "Failed looks in a row after which a worker is down.", minimum=1, maximum=1_000
    )
    freeze_timeout_ms: int = option(
        60_000,
        "How long a worker's requests may stand still, beyond twice the prefill that is expected of them, "
        "until the worker counts as frozen.",
        minimum=100,
        maximum=DAY_MS,
        unit="ms",
    )
    facts_interval_ms: int = option(
        60_000,
        "How often a worker is asked again what it serves: adapters are loaded while it runs.",
        minimum=100,
        maximum=DAY_MS,
        unit="ms",
    )
    scrape_interval_ms: int = option(
        5_000,
        "Time between two scrapes of a worker's `/metrics`, for what other routers sent to it; 0: none.",
        minimum=0,
        maximum=DAY_MS,
        unit="ms",
    )
    scrape_concurrency: int = option(8, "Scrapes under way at the same time.", minimum=1, maximum=4_096)
    worker_drain_timeout_ms: int = option(
        1_800_000,
        "How long a worker that left its sources may finish what it has; then it is forgotten, and its "
        "requests go on without being counted.",
        minimum=0,
        maximum=DAY_MS,
        unit="ms",
    )
    kv_events: str = option(
        "auto",
        "Whether the workers' KV events are followed: `auto` does where a worker publishes them "
        "(`--kv-events-config`), as its `/kv_event_sources` or its `[[worker]]` entry says.",
        choices=("auto", "off"),
    )
    kv_replay_timeout_ms: int = option(
        5_000,
        "How long a worker's replay of KV events may stand still before it is given up.",
        minimum=10,
        maximum=600_000,
        unit="ms",
    )
    warm_timeout_ms: int = option(
        0,
        "How long `/readyz` says no after the start while what workers hold is still asked for. 0 does not "
        "wait.",
        minimum=0,
        maximum=DAY_MS,
        unit="ms",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What is logged, and how."""

    log_level: str = option(
        "info", "The least important level that is logged.", choices=("debug", "info", "warning", "error")
    )
    log_format: str = option(
        "human", "Lines for people, or one JSON object a line.", choices=("human", "json")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """One worker, as a `[[worker]]` entry states it; what is left out is learnt from the worker."""

    url: str = option("", "Where the worker serves, such as `http://10.0.0.1:8000`.")
    name: str | None = option(None, "The worker's name; without it, host and port of its URL.")
    kv_blocks: int | None = option(
        None, "Blocks of KV cache that the worker has.", minimum=1, maximum=2**32 - 1, unit="blocks"
    )
    block_size: int | None = option(
        None, "Tokens in one of the worker's blocks.", minimum=1, maximum=65_536, unit="tokens"
    )
    models: tuple[str, ...] = option((), "Names of the models that the worker serves.")
    max_model_len: int | None = option(
        None, "The longest context that the worker takes.", minimum=1, maximum=2**31 - 1, unit="tokens"
    )
    max_requests: int | None = option(
        None, "Requests that the worker may have at the same time.", minimum=1, maximum=2**31 - 1
    )
    dp_rank: int | None = option(
        None, "The data-parallel rank, where one URL serves several.", minimum=0, maximum=65_535
    )
    kv_events_endpoint: str | None = option(
        None,
        "ZMQ endpoint of the worker's KV events, such as `tcp://10.0.0.1:5557`. With a star "
        "(`tcp://*:5557`) it is bound here, and publishers connect to it.",
    )
    kv_events_replay_endpoint: str | None = option(
        None, "ZMQ endpoint at which the worker replays KV events, such as `tcp://10.0.0.1:5558`."
    )
    kv_events_topic: str | None = option(
        None, "Topic of the worker's KV events; needed where `kv_events_endpoint` is bound here."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimWorkerOptions:
    """Where a simulated worker serves, and what it says of itself."""

    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(8000, "Port to listen on; 0 takes a free one.", minimum=0, maximum=PORT_MAX)
    model: str = option("sim", "Name of the model.")
    tokenizer: str | None = option(
        None,
        "A Hugging Face folder or a `tokenizer.json`. Without it the small tokenizer of the package is used.",
    )
    kv_events_endpoint: str | None = option(
        None,
        "ZMQ endpoint for KV events, such as `tcp://*:5557`; bound where it has a star or is `ipc://`, "
        "connected to otherwise, as by vLLM. Without it there are no events.",
    )
    kv_events_replay_endpoint: str | None = option(None, "ZMQ endpoint for replays of KV events.")
    kv_events_topic: str = option("kv", "Topic of the KV events.")
