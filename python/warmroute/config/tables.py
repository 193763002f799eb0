"""The options of each command: the tables of the compiled part beside those of the front."""

from collections.abc import Iterable

from warmroute import native
from warmroute.config.front import (
    FleetOptions,
    GrpcOptions,
    ListenOptions,
    LogOptions,
    PromptOptions,
    SimWorkerOptions,
)
from warmroute.config.option import Option, OptionSpec, options_of
from warmroute.config.schema import Schema, Section


def serve_schema() -> Schema:
    """The options of `warmroute serve`."""
    return Schema(
        [
            Section("listen", "where it listens, how it ends", options_of(ListenOptions)),
            Section("fleet", "the workers and their health", options_of(FleetOptions)),
            Section("prompt", "how prompts become tokens", options_of(PromptOptions)),
            Section("router", "how a worker is chosen", _compiled(native.ROUTER_OPTIONS)),
            Section("grpc", "the gRPC endpoint", options_of(GrpcOptions)),
            Section("proxy", "the HTTP data plane", _compiled(native.PROXY_OPTIONS)),
            Section("log", "what is logged", options_of(LogOptions)),
        ]
    )


def sim_worker_schema() -> Schema:
    """The options of `warmroute sim-worker`."""
    return Schema(
        [
            Section("worker", "where it serves, its KV events", options_of(SimWorkerOptions)),
            Section("engine", "the engine model", _compiled(native.SIM_OPTIONS)),
            Section("log", "what is logged", options_of(LogOptions)),
        ]
    )


def _compiled(table: Iterable[OptionSpec]) -> tuple[Option, ...]:
    return tuple(Option.of(spec) for spec in table)
