"""The effective configuration, as TOML with the origin of every value."""

import json
from typing import Any

from warmroute.config.front import WorkerOptions
from warmroute.config.load import Config
from warmroute.config.option import options_of
from warmroute.config.schema import Schema


def render(schema: Schema, config: Config) -> str:
    """Write every option's value, section by section; the comment says where the value came from."""
    lines: list[str] = []
    for section in schema.sections:
        lines.append(f"[{section.name}]")
        for option in section.options:
            setting = config.settings[f"{section.name}.{option.name}"]
            lines.append(_line(option.name, setting.value, setting.origin))
        lines.append("")
    for worker in config.workers:
        lines.append("[[worker]]")
        values = {option.name: getattr(worker, option.name) for option in options_of(WorkerOptions)}
        lines.extend(
            f"{name} = {literal(value)}" for name, value in values.items() if value not in (None, ())
        )
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _line(name: str, value: Any, origin: str) -> str:
    if value is None:
        return f"# {name} is not set"
    return f"{name} = {literal(value)}".ljust(40) + f"  # {origin}"


def literal(value: Any) -> str:
    """Write a value as TOML does."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
