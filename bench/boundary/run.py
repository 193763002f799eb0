"""A decision from Python on 30,000 token ids, beside Dynamo's compiled index in the same process.

python -m bench.boundary.run [--repeats N]
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from array import array
from collections.abc import Callable
from typing import Any

from dynamo._core import RadixTree, compute_block_hash_for_seq

import warmroute
from bench import _report

PROMPT_TOKENS = 30_000
BLOCK = 16
PROMPTS = 4
VOCABULARY = 128_000
WARM_CALLS = 20


def main() -> int:
    """Measures every shape, prints it and writes `results/boundary.json`; fails where a target is missed."""
    parser = _report.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    prompts = [[rng.randrange(VOCABULARY) for _ in range(PROMPT_TOKENS)] for _ in range(PROMPTS)]
    rows, targets = [], []
    for workers, share in ((8, 1 / 10), (256, 1 / 7)):
        for shape in ("shared", "staggered"):
            row = _measure(prompts, workers, shape, arguments.repeats)
            rows.append(row)
            claim = f"{workers} workers, {shape}: a decision over Dynamo's hash and lookup"
            targets.append(_report.target(claim, row["ratio"], share))
    print(_report.table(rows))
    return _report.finish(
        "boundary",
        seed=arguments.seed,
        versions={name: _report.version(name) for name in ("warmroute", "ai-dynamo-runtime")},
        parameters={
            "prompt_tokens": PROMPT_TOKENS,
            "block": BLOCK,
            "prompts": PROMPTS,
            "repeats": arguments.repeats,
        },
        results=rows,
        targets=targets,
    )


def _measure(prompts: list[list[int]], workers: int, shape: str, repeats: int) -> dict[str, Any]:
    """Medians in microseconds; the calls take turns, so that a slow moment falls on all of them."""
    held = [_held_tokens(worker, workers, shape) for worker in range(workers)]
    ours = _warmroute(prompts, held)
    calls = {
        "decide_us": ours["decide"],
        "route_us": ours["route"],
        "dynamo_us": _dynamo(prompts, held),
        "hash_us": _dynamo_hash(prompts),
    }
    samples: dict[str, list[int]] = {name: [] for name in calls}
    for turn in range(WARM_CALLS + repeats):
        for name, call in calls.items():
            start = time.perf_counter_ns()
            call(turn % PROMPTS)
            taken = time.perf_counter_ns() - start
            if turn >= WARM_CALLS:
                samples[name].append(taken)
    medians = {name: round(statistics.median(seen) / 1e3, 1) for name, seen in samples.items()}
    ratio = medians["decide_us"] / medians["dynamo_us"]
    return {"workers": workers, "shape": shape, **medians, "ratio": round(ratio, 4)}


def _held_tokens(worker: int, workers: int, shape: str) -> int:
    """How many leading tokens of each prompt a worker holds: all, or a share that grows with its number."""
    if shape == "shared":
        return PROMPT_TOKENS
    return PROMPT_TOKENS * (worker + 1) // workers // BLOCK * BLOCK


def _warmroute(prompts: list[list[int]], held: list[int]) -> dict[str, Callable[[int], object]]:
    router = warmroute.Router(block_size=BLOCK)
    names = [f"w{number}" for number in range(len(held))]
    for name in names:
        router.add_worker(name)
    packed = [array("I", prompt).tobytes() for prompt in prompts]
    for name, tokens in zip(names, held, strict=True):
        others = [other for other in names if other != name]
        for ids in packed:
            router.route(ids[: tokens * 4], avoid=others).close()
    best = max(held) // BLOCK * BLOCK
    overlap = router.decide(packed[0]).overlap_tokens
    if overlap < best - BLOCK:
        raise RuntimeError(f"the index lost what it was given: {overlap} of {best} tokens")
    return {
        "decide": lambda prompt: router.decide(packed[prompt]),
        "route": lambda prompt: router.route(packed[prompt]).close(),
    }


def _dynamo(prompts: list[list[int]], held: list[int]) -> Callable[[int], object]:
    tree = RadixTree()
    for worker, tokens in enumerate(held):
        for prompt in prompts:
            hashes = compute_block_hash_for_seq(prompt[:tokens], BLOCK)
            blocks = [{"block_hash": hash_, "tokens_hash": hash_} for hash_ in hashes]
            event = {"event_id": worker, "data": {"stored": {"parent_hash": None, "blocks": blocks}}}
            tree.apply_event(worker, json.dumps({**event, "dp_rank": 0}).encode())
    found = tree.find_matches(compute_block_hash_for_seq(prompts[0], BLOCK)).scores
    if max(found.values()) != max(held) // BLOCK or len(found) != len(held):
        raise RuntimeError(f"Dynamo's index lost what it was given: {len(found)} workers")
    return lambda prompt: tree.find_matches(compute_block_hash_for_seq(prompts[prompt], BLOCK))


def _dynamo_hash(prompts: list[list[int]]) -> Callable[[int], object]:
    return lambda prompt: compute_block_hash_for_seq(prompts[prompt], BLOCK)


if __name__ == "__main__":
    sys.exit(main())
