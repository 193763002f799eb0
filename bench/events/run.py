"""Events of engines into the index: how fast, beside decisions, in how much memory, and for how long.

python -m bench.events.run [--soak-events N]
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

from bench import _cargo, _report

PAIRS = 10_000_000
SHAPES = 4
BLOCK_NS = 1000
PAIR_BYTES = 48
SLOWER = 2
GROWTH = 1.05


def main() -> int:
    """Measures each part in a process of its own and writes `results/events.json`."""
    parser = _report.parser(__doc__)
    parser.add_argument("--soak-events", type=int, default=100_000_000)
    soak_events = parser.parse_args().soak_events
    binary = _cargo.build("events")
    first = _realtime()
    ingest = _cargo.rows([binary, "ingest"])
    lookups = _cargo.rows([*first, binary, "lookups", "9", "100"])
    memory = [
        row for shape in range(SHAPES) for row in _cargo.rows([binary, "memory", str(shape), str(PAIRS)])
    ]
    soak = _cargo.rows([binary, "soak", str(soak_events), str(soak_events // 20)])
    targets = [*_targets(ingest, lookups, memory), _flat(soak)]
    for rows in (ingest, lookups, memory, soak):
        print(_report.table(rows))
    return _report.finish(
        "events",
        seed=7,
        versions={"warmroute": _report.version("warmroute")},
        parameters={"block_size": 16, "pairs": PAIRS, "soak_events": soak_events, "realtime": bool(first)},
        results=[*ingest, *lookups, *memory, *soak],
        targets=targets,
    )


def _targets(
    ingest: list[dict[str, Any]], lookups: list[dict[str, Any]], memory: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    for row in ingest:
        claim = f"{row['layout']}, batches of {row['batch_blocks']}: CPU a block, ns"
        yield _report.target(claim, row["block_ns"], BLOCK_NS)
    for row in lookups:
        claim = f"{row['events']}: p99 of decisions over that with the events elsewhere"
        yield _report.target(claim, row["p99_over_elsewhere"], SLOWER)
    for row in memory:
        yield _report.target(f"{row['shape']}: RSS for a pair, bytes", row["rss_per_pair"], PAIR_BYTES)
        yield _report.target(f"{row['shape']}: accounted, bytes", row["accounted_per_pair"], PAIR_BYTES)


def _flat(soak: list[dict[str, Any]]) -> dict[str, Any]:
    """Most resident memory of the second half over that of the first: what is held varies, a leak adds up."""
    resident = [row["rss_mib"] for row in soak]
    first, second = resident[: len(resident) // 2], resident[len(resident) // 2 :]
    claim = f"{soak[-1]['events']} events: most RSS of the second half over that of the first"
    return _report.target(claim, max(second) / max(first), GROWTH)


def _realtime() -> list[str]:
    """What runs a command before all others, where that is allowed: others' turns are no latency of ours."""
    prefix = ["chrt", "--fifo", "1"]
    if not shutil.which("chrt"):
        return []
    tried = subprocess.run([*prefix, "true"], check=False, capture_output=True)
    return prefix if tried.returncode == 0 else []


if __name__ == "__main__":
    raise SystemExit(main())
