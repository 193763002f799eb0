"""The end of the demo: the plays side by side, for people and as JSON."""

import json
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warmroute.demo.figures import Figures
from warmroute.demo.scenario import Scenario
from warmroute.native import __version__

# A worker that is late by more than this many simulated seconds shows the machine, not the policy.
LAG_LIMIT = 1.0

ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("prefix cache hit rate", lambda f: f"{f.hit_rate:.1%}"),
    ("requests a second", lambda f: f"{f.requests_per_second:.2f}"),
    ("time to first token, p50", lambda f: f"{f.ttft_p50:.2f} s"),
    ("time to first token, p99", lambda f: f"{f.ttft_p99:.2f} s"),
    ("whole request, p50", lambda f: f"{f.e2e_p50:.2f} s"),
    ("whole request, p99", lambda f: f"{f.e2e_p99:.2f} s"),
    ("engine time spent recomputing", lambda f: f"{f.recompute_share:.1%}"),
    ("requests measured", lambda f: str(f.requests)),
    ("requests failed", lambda f: str(f.failed)),
)


def table(plays: Mapping[str, Figures], scenario: Scenario, speed: float) -> str:
    """The figures side by side, and what they mean."""
    lines = [" " * 32 + "".join(f"{name:>14}" for name in plays)]
    lines.extend(f"{title:<32}" + "".join(f"{cell(f):>14}" for f in plays.values()) for title, cell in ROWS)
    lines.append("")
    lines.append(f"Durations are simulated seconds, of which {speed:g} pass in a real one.")
    lines.append(f"warmroute {__version__}, seed {scenario.seed}")
    for name, figures in plays.items():
        if figures.failed:
            lines.append(f"{name}: the last failure was: {figures.last_failure}")
    lag = max(figures.peak_lag for figures in plays.values())
    if lag > LAG_LIMIT:
        lines.append(f"A worker was late by {lag:.1f} s at worst: this machine is busy, lower --speed.")
    return "\n".join(lines)


def write(path: Path, plays: Mapping[str, Figures], scenario: Scenario, speed: float) -> None:
    """Write the figures as JSON, with what is needed to play them again."""
    document = {
        "version": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "seed": scenario.seed,
        "speed": speed,
        "unit": "simulated seconds",
        "scenario": asdict(scenario),
        "plays": {name: _numbers(figures) for name, figures in plays.items()},
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _numbers(figures: Figures) -> dict[str, Any]:
    values = asdict(figures)
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in values.items()
    }
