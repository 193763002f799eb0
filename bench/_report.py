"""Writes what a benchmark found, and what it takes to repeat it, to `bench/results/NAME.json`."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the benchmark's own description, as it stands."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def finish(
    name: str,
    *,
    seed: int,
    versions: Mapping[str, str],
    parameters: Mapping[str, Any],
    results: Sequence[Mapping[str, Any]],
    targets: Sequence[Mapping[str, Any]],
) -> int:
    """Writes `bench/results/NAME.json`, prints the claims and returns the exit code.

    `results` has one flat row per measurement; `targets` one row per claim, made by `target`.
    """
    report = {
        "bench": name,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "seed": seed,
        "versions": dict(versions),
        "parameters": dict(parameters),
        "results": [dict(row) for row in results],
        "targets": [dict(row) for row in targets],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    code = verdict(targets)
    print(f"written: {path}")
    return code


def target(claim: str, value: float, at_most: float) -> dict[str, Any]:
    """One claim, what was measured for it, and whether it holds."""
    return {"claim": claim, "value": round(value, 4), "at_most": at_most, "holds": value <= at_most}


def verdict(targets: Sequence[Mapping[str, Any]]) -> int:
    """Prints one line for each claim, and returns the exit code."""
    for row in targets:
        word = "ok    " if row["holds"] else "MISSED"
        print(f"{word} {row['claim']}: {row['value']} (at most {row['at_most']:.4g})")
    return 0 if all(row["holds"] for row in targets) else 1


def commit() -> str:
    """The checkout's commit, with `+changes` where tracked files differ from it."""
    head = _git("rev-parse", "HEAD")
    if not head:
        return "unknown"
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return f"{head}+changes" if changed else head


def machine() -> dict[str, Any]:
    """CPU model, cores this process may use, memory, load and kernel."""
    return {
        "cpu": _first_value("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": int((_first_value("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) // 1024,
        "load_average_1m": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def version(distribution: str) -> str:
    """The installed version of a Python distribution, or `absent`."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as an aligned text table; columns are the keys of the first row."""
    if not rows:
        return "(nothing measured)"
    heads = list(rows[0])
    cells = [heads] + [[_cell(row.get(head)) for head in heads] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells
    )


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
    return "" if value is None else str(value)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _first_value(path: str, key: str) -> str | None:
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None
