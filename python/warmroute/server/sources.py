"""What is configured of discovery: the sources of workers, and who may change the fleet."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from warmroute.config import Config, FleetOptions, ListenOptions
from warmroute.errors import ConfigError
from warmroute.fleet.discovery import Source, Standing
from warmroute.fleet.discovery.dns import DnsSource, Resolver
from warmroute.fleet.discovery.file import FileSource

# A key shorter than this can be guessed.
KEY_LENGTH = 16


class StandingSource(Source, Protocol):
    """A source that says how it fares."""

    @property
    def standing(self) -> Standing:
        """How it fares."""


def sources_of(options: FleetOptions, is_up: Callable[[str], bool]) -> list[StandingSource]:
    """The sources that are followed while the router runs; `is_up` says whether a worker answers at a URL."""
    sources: list[StandingSource] = []
    if options.workers_file is not None:
        sources.append(FileSource(Path(options.workers_file), options.workers_file_interval_ms / 1000))
    if options.dns:
        sources.append(_dns(options, is_up))
    if options.kubernetes_service is not None or options.kubernetes_selector is not None:
        sources.append(_kubernetes(options))
    return sources


def _dns(options: FleetOptions, is_up: Callable[[str], bool]) -> DnsSource:
    low, high = options.dns_min_interval_ms / 1000, options.dns_max_interval_ms / 1000
    try:
        resolver = Resolver(options.dns_server, options.dns_timeout_ms / 1000)
    except ValueError:
        raise ConfigError("fleet.dns_server", options.dns_server, "IP or IP:PORT") from None
    return DnsSource(
        options.dns, resolver, ttl_s=(low, max(low, high)), keep_s=options.dns_keep_ms / 1000, is_up=is_up
    )


def _kubernetes(options: FleetOptions) -> StandingSource:
    try:
        from warmroute.fleet.discovery.kubernetes import kubernetes_source  # noqa: PLC0415 - an extra
    except ImportError:
        key = "kubernetes_service" if options.kubernetes_service is not None else "kubernetes_selector"
        allowed = "a client of Kubernetes beside it: pip install 'warmroute[kubernetes]'"
        raise ConfigError(f"fleet.{key}", getattr(options, key), allowed) from None
    return kubernetes_source(
        service=options.kubernetes_service,
        selector=options.kubernetes_selector,
        namespace=options.kubernetes_namespace,
        port=options.kubernetes_port,
        timeout_s=options.kubernetes_timeout_ms / 1000,
        resync_s=options.kubernetes_resync_ms / 1000,
    )


def check_workers(config: Config) -> None:
    """Raise `ConfigError` where no worker could ever be known."""
    options, listen = config.view("fleet", FleetOptions), config.view("listen", ListenOptions)
    followed = (
        options.workers_file or options.dns or options.kubernetes_service or options.kubernetes_selector
    )
    if not config.workers and not followed and listen.admin_key_file is None:
        raise ConfigError(
            "fleet.worker",
            [],
            "at least one worker: --worker URL, [[worker]] in the file, --workers-file, --dns, "
            "--kubernetes-service, or an --admin-key-file to add them while it runs",
        )


def admin_key(options: ListenOptions) -> str | None:
    """The key of the admin API, or `ConfigError`."""
    where, path = "listen.admin_key_file", options.admin_key_file
    key = _word(where, path)
    if key is not None and len(key) < KEY_LENGTH:
        raise ConfigError(where, path, f"a file with one word of at least {KEY_LENGTH} characters")
    return key


def worker_key(options: FleetOptions) -> str | None:
    """The key that workers ask for, or `ConfigError`."""
    return _word("fleet.worker_key_file", options.worker_key_file)


def _word(where: str, path: str | None) -> str | None:
    """The one word of a file."""
    if path is None:
        return None
    try:
        words = Path(path).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(where, path, f"a file that can be read ({error})") from None
    if len(words) != 1 or not words[0].isascii():
        raise ConfigError(where, path, "a file with one word")
    return words[0]
