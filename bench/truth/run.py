"""What the router says a worker holds, against two real vLLM workers that evict all the time.

python -m bench.truth.run [--requests N] [--clients N] [--blocks N] [--only events predicted]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import _report
from bench.truth import events, predicted
from bench.truth.events import Played
from bench.truth.fleet import Workers, workers
from tests.support import engine
from tests.support.answers import Answer

BLOCK = engine.BLOCK_TOKENS


def main() -> int:
    """Play both parts and write `results/truth.json`; fail where a target is missed."""
    parser = _report.parser(__doc__)
    parser.add_argument("--requests", type=int, default=4_000, help="of the part with events")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each phase of the part without")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=512, help="KV blocks of a worker")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--only", nargs="*", choices=("events", "predicted"))
    parser.add_argument("--answers", type=Path, help="a file for one line of JSON a request")
    arguments = parser.parse_args()
    if engine.kit() is None:
        print(engine.absence(), file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch, workers(arguments.blocks) as started:
        played = asyncio.run(_play(started, Path(scratch), arguments))
        captured = [_captured(started)] if "events" in played else []
    rows = [_row(part, phase) for part, phases in played.items() for phase in phases]
    print(_report.table(rows))
    if arguments.answers:
        arguments.answers.write_text("".join(_lines(played)))
    targets = [target for part, phases in played.items() for target in _TARGETS[part](phases)]
    if arguments.only:
        return _report.verdict(targets)
    parameters = {key: getattr(arguments, key) for key in ("requests", "seconds", "clients", "blocks")}
    return _report.finish(
        "truth",
        seed=arguments.seed,
        versions={"warmroute": _report.version("warmroute"), "vllm": _vllm_version()},
        parameters=parameters | {"block_tokens": BLOCK, "workers": 2, "groups": 12},
        results=[*rows, *captured],
        targets=targets,
    )


async def _play(started: Workers, scratch: Path, arguments: argparse.Namespace) -> dict[str, list[Played]]:
    only, clients, seed = arguments.only or ("events", "predicted"), arguments.clients, arguments.seed
    played = {}
    if "events" in only:
        log = scratch / "events.log"
        played["events"] = await events.run(started, log, arguments.requests, clients, seed)
    if "predicted" in only:
        log = scratch / "predicted.log"
        played["predicted"] = await predicted.run(started, log, arguments.seconds, clients, seed)
    return played


def _row(part: str, played: Played) -> dict[str, Any]:
    answered = [answer for answer in played.answers if answer.status == 200]
    seen = [answer for answer in answered if not played.unseen(answer)]
    prompts = sum(answer.prompt_tokens for answer in answered)
    return {
        "part": part,
        "phase": played.phase,
        "seconds": round(played.seconds, 1),
        "requests": len(played.answers),
        "failed": len(played.answers) - len(answered),
        "hit_rate": round(sum(answer.cached_tokens for answer in answered) / max(1, prompts), 3),
        "unseen_reset": len(answered) - len(seen),
        "exact": sum(answer.error_tokens == 0 for answer in seen),
        "within_a_block": sum(abs(answer.error_tokens) <= BLOCK for answer in seen),
        "too_low": sum(answer.error_tokens > BLOCK for answer in seen),
        "too_high": sum(answer.error_tokens < -BLOCK for answer in seen),
        "of": len(seen),
        "compared": len(played.compared),
        "unequal": sum(not compared.equal for compared in played.compared),
        "blocks": sum(compared.engine_blocks for compared in played.compared),
    }


def _event_targets(phases: Sequence[Played]) -> list[dict[str, Any]]:
    seen = [answer for played in phases for answer in played.answers if _counts(played, answer)]
    unequal = sum(not compared.equal for played in phases for compared in played.compared)
    inexact = sum(answer.error_tokens != 0 for answer in seen) / len(seen)
    off = sum(abs(answer.error_tokens) > BLOCK for answer in seen)
    return [
        _report.target("events: quiet points at which the index is not the engine's set", unequal, 0),
        _report.target("events: share of predictions that are not cached_tokens", inexact, 0.001),
        _report.target("events: predictions that are off by more than a block", off, 0),
    ]


def _predicted_targets(phases: Sequence[Played]) -> list[dict[str, Any]]:
    return [
        _report.target(
            f"predicted, {played.phase}: share that is off by more than a block", _off(played), 0.05
        )
        for played in phases
        if played.phase in ("after a minute", "after that")
    ]


_TARGETS = {"events": _event_targets, "predicted": _predicted_targets}


def _off(played: Played) -> float:
    answered = [answer for answer in played.answers if answer.status == 200]
    return sum(abs(answer.error_tokens) > BLOCK for answer in answered) / len(answered)


def _counts(played: Played, answer: Answer) -> bool:
    return answer.status == 200 and not played.unseen(answer)


def _captured(started: Workers) -> dict[str, Any]:
    """What the captures saw, all workers together."""
    names = ("batches", "stored", "removed", "copies", "cleared", "restarts")
    captures = started.captures.values()
    faults = [fault for capture in captures for fault in capture.faults]
    if faults:
        raise RuntimeError(f"the capture is not whole: {faults[:3]}")
    return {"part": "captured"} | {
        name: sum(getattr(capture, name) for capture in captures) for name in names
    }


def _lines(played: dict[str, list[Played]]) -> list[str]:
    return [
        json.dumps(
            {
                "part": part,
                "phase": phase.phase,
                "unseen": phase.unseen(answer),
                "number": answer.asked.number,
                "kind": answer.asked.kind,
                "group": answer.asked.group,
                "salt": answer.asked.body.get("cache_salt"),
                **{key: value for key, value in vars(answer).items() if key != "asked"},
            }
        )
        + "\n"
        for part, phases in played.items()
        for phase in phases
        for answer in phase.answers
    ]


def _vllm_version() -> str:
    kit = engine.kit()
    assert kit is not None
    code = "import importlib.metadata as m; print(m.version('vllm'))"
    python = engine.venv(kit) / "bin/python"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
