"""Memory of the prefix index for each (block, worker) pair, beside Dynamo's.

python -m bench.index.run [--pairs N]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dynamo._core import RadixTree, compute_block_hash_for_seq

import warmroute
from bench import _report

BLOCK = 16
PROMPT_BLOCKS = 500
WORKERS = 8
SHAPES = {
    "one holder": 1,  # every prompt on one worker: the most nodes for a pair
    "eight holders": 8,  # every prompt on every worker: a hot prefix
}


def main() -> int:
    """Measures each index in a process of its own and writes `results/index.json`."""
    parser = _report.parser(__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--child", nargs=2, metavar=("INDEX", "SHAPE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        index, shape = arguments.child
        print(json.dumps(_INDEXES[index](arguments.pairs, SHAPES[shape], arguments.seed)))
        return 0
    rows = [
        {"shape": shape, "index": index, **_in_child(index, shape, arguments)}
        for shape in SHAPES
        for index in _INDEXES
    ]
    targets = [
        _report.target(f"{row['shape']}: RSS for each pair, bytes", row["rss_per_pair"], 48)
        for row in rows
        if row["index"] == "warmroute"
    ]
    print(_report.table(rows))
    return _report.finish(
        "index",
        seed=arguments.seed,
        versions={name: _report.version(name) for name in ("warmroute", "ai-dynamo-runtime")},
        parameters={"pairs": arguments.pairs, "prompt_blocks": PROMPT_BLOCKS, "block": BLOCK},
        results=rows,
        targets=targets,
    )


def _in_child(index: str, shape: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.index.run", "--child", index, shape]
    command += ["--pairs", str(arguments.pairs), "--seed", str(arguments.seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=_report.ROOT)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def _prompts(pairs: int, holders: int, seed: int) -> Iterator[bytes]:
    """Prompts without a common block, as packed ids; each is for `holders` workers."""
    rng = random.Random(seed)
    for _ in range(pairs // PROMPT_BLOCKS // holders):
        yield rng.randbytes(PROMPT_BLOCKS * BLOCK * 4)


def _warmroute(pairs: int, holders: int, seed: int) -> dict[str, Any]:
    router = warmroute.Router(block_size=BLOCK, index_bytes=1 << 33)
    names = [f"w{number}" for number in range(WORKERS)]
    for name in names:
        router.add_worker(name, kv_blocks=pairs)
    # What a first decision sets up belongs to the router and not to its pairs.
    router.route(random.Random(seed + 1).randbytes(PROMPT_BLOCKS * BLOCK * 4)).close()
    accounted, before = router.stats()["index"]["bytes"], _rss()
    turn, ids = 0, b""
    for ids in _prompts(pairs, holders, seed):
        for _ in range(holders):
            name = names[turn % WORKERS]
            router.route(ids, avoid=[other for other in names if other != name]).close()
            turn += 1
    grown = _rss() - before
    if router.decide(ids).overlap_tokens < (PROMPT_BLOCKS - 1) * BLOCK:
        raise RuntimeError("the index lost what it was given")
    accounted = router.stats()["index"]["bytes"] - accounted
    return _row(pairs, grown, accounted)


def _dynamo(pairs: int, holders: int, seed: int) -> dict[str, Any]:
    tree = RadixTree()
    before = _rss()
    turn = 0
    for ids in _prompts(pairs, holders, seed):
        hashes = compute_block_hash_for_seq(array("I", ids).tolist(), BLOCK)
        blocks = [{"block_hash": hash_, "tokens_hash": hash_} for hash_ in hashes]
        for _ in range(holders):
            event = {"event_id": turn, "data": {"stored": {"parent_hash": None, "blocks": blocks}}}
            tree.apply_event(turn % WORKERS, json.dumps({**event, "dp_rank": 0}).encode())
            turn += 1
    return _row(pairs, _rss() - before, None)


def _row(pairs: int, grown: int, accounted: int | None) -> dict[str, Any]:
    row: dict[str, Any] = {"rss_per_pair": round(grown / pairs, 1), "accounted_per_pair": None}
    if accounted is not None:
        row["accounted_per_pair"] = round(accounted / pairs, 1)
        row["accounted_over_rss"] = round(accounted / grown, 3)
    return row


def _rss() -> int:
    """Resident bytes of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


_INDEXES: dict[str, Callable[[int, int, int], dict[str, Any]]] = {"warmroute": _warmroute, "dynamo": _dynamo}


if __name__ == "__main__":
    sys.exit(main())
