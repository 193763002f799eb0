"""What is configured of discovery: the sources of workers, and who may change the fleet."""

from pathlib import Path
from typing import Protocol

from warmroute.config import Config, FleetOptions, ListenOptions
from warmroute.errors import ConfigError
from warmroute.fleet.discovery import Source, Standing
from warmroute.fleet.discovery.file import FileSource

# A key shorter than this can be guessed.
KEY_LENGTH = 16


class StandingSource(Source, Protocol):
    """A source that says how it fares."""

    @property
    def standing(self) -> Standing:
        """How it fares."""


def sources_of(options: FleetOptions) -> list[StandingSource]:
    """The sources that are followed while the router runs."""
    sources: list[StandingSource] = []
    if options.workers_file is not None:
        sources.append(FileSource(Path(options.workers_file), options.workers_file_interval_ms / 1000))
    return sources


def check_workers(config: Config) -> None:
    """Raise `ConfigError` where no worker could ever be known."""
    options, listen = config.view("fleet", FleetOptions), config.view("listen", ListenOptions)
    if not config.workers and not sources_of(options) and listen.admin_key_file is None:
        raise ConfigError(
            "fleet.worker",
            [],
            "at least one worker: --worker URL, [[worker]] in the file, --workers-file, or an "
            "--admin-key-file to add them while it runs",
        )


def admin_key(options: ListenOptions) -> str | None:
    """The key of the admin API, or `ConfigError`."""
    if options.admin_key_file is None:
        return None
    where = "listen.admin_key_file"
    try:
        key = Path(options.admin_key_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(where, options.admin_key_file, f"a file that can be read ({error})") from None
    if len(key) < KEY_LENGTH or any(character.isspace() for character in key):
        raise ConfigError(
            where, options.admin_key_file, f"a file with one word of at least {KEY_LENGTH} characters"
        )
    return key
