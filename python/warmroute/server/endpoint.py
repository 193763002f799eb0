"""The gRPC endpoint of `warmroute serve`: made of the options, where there is a port."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from warmroute.config import Config, FleetOptions, GrpcOptions, ListenOptions
from warmroute.fleet import Operator
from warmroute.native import Prompter, RetryBudget, Router
from warmroute.server.admin import is_loopback
from warmroute.server.sources import admin_key, worker_key
from warmroute.tasks import Tasks

if TYPE_CHECKING:
    from warmroute.rpc import Keys, Server

_NOBODY = (
    "the fleet cannot be changed here: the gRPC endpoint listens on more than this machine and there is no "
    "admin key (--admin-key-file FILE)"
)


def endpoint(
    config: Config,
    router: Router,
    prompter: Prompter,
    operator: Operator,
    *,
    retry_budget: RetryBudget,
    is_ready: Callable[[], bool],
    tasks: Tasks,
) -> Server | None:
    """The endpoint, not started; `None` where no port is set. Raises `ConfigError`."""
    options = config.view("grpc", GrpcOptions)
    if options.grpc_port is None:
        return None
    # Whoever does not want gRPC does not wait for its import.
    from warmroute.rpc import Server, UpstreamOptions  # noqa: PLC0415

    return Server(
        router,
        prompter,
        operator,
        options,
        is_ready=is_ready,
        upstream=UpstreamOptions.of(config.section("proxy")),
        retry_budget=retry_budget,
        changers=_changers(config, options),
        worker_key=worker_key(config.view("fleet", FleetOptions)),
        tasks=tasks,
    )


def _changers(config: Config, options: GrpcOptions) -> Keys | None:
    """Whoever has the admin key; without one whoever may call on this machine, and nobody from elsewhere."""
    from warmroute.rpc import Keys, Nobody  # noqa: PLC0415

    key = admin_key(config.view("listen", ListenOptions))
    if key is not None:
        return Keys([key])
    return None if is_loopback(options.grpc_host) else Nobody(_NOBODY)


def stats_of(server: Server | None) -> dict[str, Any]:
    """What the endpoint counts; nothing where there is none."""
    return server.stats() if server is not None else {}
