"""Builds a benchmark that is a Rust program of its own, and reads the rows that it prints."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from bench import _report


def build(name: str) -> str:
    """The release build of `bench/NAME`: the path of its program."""
    manifest = str(_report.ROOT / "bench" / name / "Cargo.toml")
    command = [
        "cargo",
        "build",
        "--release",
        "--locked",
        "--message-format=json",
        "--manifest-path",
        manifest,
    ]
    messages = map(json.loads, _output(command).splitlines())
    built: list[str] = [message["executable"] for message in messages if message.get("executable")]
    return built[-1]


def rows(command: Sequence[str]) -> list[dict[str, Any]]:
    """What a command prints, a JSON object a line."""
    return [json.loads(line) for line in _output(command).splitlines()]


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
