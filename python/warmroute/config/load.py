"""Values from their sources: defaults, the file, the environment, the flags; the later one wins."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from warmroute.config.front import WorkerOptions
from warmroute.config.schema import Schema, unknown
from warmroute.config.worker import WORKER_TABLE, brief, names_differ, worker_of, workers_from
from warmroute.errors import ConfigError

T = TypeVar("T")

PREFIX = "WARMROUTE_"
CONFIG_VARIABLE = PREFIX + "CONFIG"

# Kubernetes sets such variables for a service that is called "warmroute"; they are not ours.
_SERVICE_LINK = re.compile(
    r"(?:.*_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)\w*)?)"
)
_SERVICE_LINK_VALUE = re.compile(r"(?:tcp|udp|sctp)://")


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it came from."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Config:
    """The effective values of a command's options, by key, and the workers it is told of."""

    settings: Mapping[str, Setting]
    workers: tuple[WorkerOptions, ...] = ()

    def section(self, name: str) -> dict[str, Any]:
        """The values of one section, by option name."""
        prefix = name + "."
        return {
            key.removeprefix(prefix): setting.value
            for key, setting in self.settings.items()
            if key.startswith(prefix)
        }

    def view(self, name: str, cls: type[T]) -> T:
        """The values of one section, as the dataclass that defines it."""
        return cls(**self.section(name))


def load(
    schema: Schema,
    *,
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """Gather the values of all options; raise `ConfigError` for the first that is unknown or not allowed."""
    settings = {key: Setting(option.default, "default") for key, option in schema}
    workers: tuple[WorkerOptions, ...] = ()
    if path is not None:
        document = _read(path)
        workers = workers_from(document.pop(WORKER_TABLE, []), str(path))
        settings.update(_from_file(schema, document, str(path)))
    settings.update(_from_environment(schema, environment or {}))
    settings.update(_from_flags(schema, flags or {}))
    named = settings.get("fleet.worker")
    if named is not None and named.value:
        workers = tuple(worker_of(text, named.origin) for text in named.value)
    names_differ(workers)
    return Config(settings, workers)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError("config", str(path), f"a file that can be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("config", str(path), f"a TOML file ({error})") from None


def _from_file(schema: Schema, document: Mapping[str, Any], source: str) -> Iterator[tuple[str, Setting]]:
    for section, table in document.items():
        if not schema.has_section(section):
            names = [known.name for known in schema.sections] + [WORKER_TABLE]
            raise ConfigError(section, brief(table), unknown(section, names), source)
        if not isinstance(table, dict):
            raise ConfigError(section, table, "a table", source)
        for name, value in table.items():
            key = f"{section}.{name}"
            option = schema.get(key)
            if option is None:
                raise ConfigError(key, brief(value), schema.suggest(key), source)
            yield key, Setting(option.check(value, key, source), source)


def _from_environment(schema: Schema, environment: Mapping[str, str]) -> Iterator[tuple[str, Setting]]:
    by_variable = {option.variable: (key, option) for key, option in schema}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or variable == CONFIG_VARIABLE or text.strip() == "":
            continue
        if _is_service_link(variable, text):
            continue
        if variable not in by_variable:
            # Its value stays out of the message: what is unknown may be a credential.
            raise ConfigError(variable, "(hidden)", unknown(variable, by_variable), "environment")
        key, option = by_variable[variable]
        yield key, Setting(option.parse(text, key, variable), variable)


def _is_service_link(variable: str, text: str) -> bool:
    name = variable.removeprefix(PREFIX)
    if name == "PORT":
        return _SERVICE_LINK_VALUE.match(text) is not None
    return _SERVICE_LINK.fullmatch(name) is not None


def _from_flags(schema: Schema, flags: Mapping[str, Any]) -> Iterator[tuple[str, Setting]]:
    """Flags are texts, or what argparse makes of a switch or of a repeated flag."""
    for key, option in schema:
        value = flags.get(option.name)
        if value is None:
            continue
        if isinstance(value, str):
            value = option.parse(value, key, option.flag)
        yield key, Setting(option.check(value, key, option.flag), option.flag)
