"""CPU that an HTTP router spends on a request, beside nginx and three other LLM routers, in one run.

    python -m bench.proxy.run [--rounds N] [--seconds N] [--routers a,b] [--shapes a,b]

Each round starts every router in turn with the same workers and the same requests, so that a slow minute
of the machine falls on all of them. Reported are medians over the rounds and ratios of those medians.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from bench import _report
from bench.proxy import load, process
from bench.proxy.routers import Router, all_routers

WORKERS = 4
START_SECONDS = 60
WARM_SECONDS = 2


def main() -> int:
    """Runs the comparison, prints it and writes `results/proxy.json`; fails where a target is missed."""
    arguments = _arguments()
    known = all_routers()
    chosen = [known[name] for name in arguments.routers.split(",")]
    for router in [router for router in chosen if router.program is None]:
        print(f"not installed, left out: {router.name}", file=sys.stderr)
    chosen = [router for router in chosen if router.program is not None]
    shapes = [load.SHAPES[name] for name in arguments.shapes.split(",")]
    samples: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for round_ in range(arguments.rounds):
        for shape in shapes:
            for name, sample in _round(shape, chosen, arguments.seconds, arguments.seed):
                print(f"{round_ + 1}  {shape.name:10}  {name:14}  {sample}", file=sys.stderr, flush=True)
                samples.setdefault((shape.name, name), []).append(sample)
    rows = _rows(samples)
    targets = _targets(rows)
    print(_report.table(rows))
    versions = {router.name: router.version(router.program) for router in chosen if router.program}
    parameters = {"rounds": arguments.rounds, "seconds": arguments.seconds, "workers": WORKERS}
    parameters |= {"connections": load.CONNECTIONS, "tenants": load.TENANTS, "bodies": load.BODIES}
    return _report.finish(
        arguments.name,
        seed=arguments.seed,
        versions=versions,
        parameters=parameters,
        results=rows,
        targets=targets,
    )


def _arguments() -> argparse.Namespace:
    parser = _report.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds", type=int, default=6, help="measured seconds for each router, shape and round"
    )
    parser.add_argument("--routers", default=",".join(all_routers()))
    parser.add_argument("--shapes", default=",".join(load.SHAPES))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--name", default="proxy", help="name of the results file")
    return parser.parse_args()


def _round(
    shape: load.Shape, routers: list[Router], seconds: int, seed: int
) -> list[tuple[str, dict[str, Any]]]:
    """One sample of every router for one shape."""
    with tempfile.TemporaryDirectory(prefix="proxy-bench-") as scratch:
        folder = Path(scratch)
        worker_ports = process.free_ports(WORKERS)
        requests = load.bodies(shape, seed)
        with load.workers(folder, worker_ports, shape):
            return [
                (router.name, _sample(router, shape, folder, worker_ports, requests, seconds))
                for router in routers
            ]


def _sample(
    router: Router,
    shape: load.Shape,
    folder: Path,
    worker_ports: list[int],
    requests: list[bytes],
    seconds: int,
) -> dict[str, Any]:
    """Starts the router, lets it see the requests, and measures it for `seconds`."""
    assert router.program is not None
    (port,) = process.free_ports(1)
    exact = router.name == "warmroute" and shape.tokenizer is not None
    script = load.write_wrk_script(folder, requests, port, fresh=shape.tokenizer is not None)
    command = router.command(router.program, port, worker_ports, folder)
    if exact:
        command += ["--tokenizer", str(shape.tokenizer)]
    log = folder / f"{router.name}.log"
    with process.running(command, log) as running:
        rung = _wait_for_answer(running, port, requests[0], log)
        if exact and rung != "local":
            raise RuntimeError(f"tokens are not exact: {rung}")
        load.drive(script, port, WARM_SECONDS)
        before = process.cpu_seconds(running.pid)
        seen = load.drive(script, port, seconds)
        spent = process.cpu_seconds(running.pid) - before
        if seen.errors:
            raise RuntimeError(f"{router.name}: {seen.errors} of {seen.requests} requests failed")
        return {
            "cpu_us": round(spent / seen.requests * 1e6, 1),
            "per_s": round(seen.requests / seen.seconds),
            "p50_ms": seen.p50_ms,
            "p99_ms": seen.p99_ms,
            "rss_mib": round(process.rss_mib(running.pid)),
        }


def _wait_for_answer(running: subprocess.Popen[bytes], port: int, body: bytes, log: Path) -> str | None:
    """Waits for the first reply; gives warmroute's word on how the prompt was had."""
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    deadline = time.monotonic() + START_SECONDS
    while True:
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                reply.read()
                rung: str | None = reply.headers.get("x-warmroute-rung")
                return rung
        except OSError as error:  # also every HTTP status that is an error: the router has no worker yet
            if running.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no answer: {error}\n{log.read_text()[-2000:]}") from error
        time.sleep(0.2)


def _rows(samples: dict[tuple[str, str], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Medians over the rounds, and the ratio of CPU to nginx and to sglang-router."""
    rows: list[dict[str, Any]] = []
    for (shape, name), seen in samples.items():
        medians = {key: statistics.median(sample[key] for sample in seen) for key in seen[0]}
        spread = [sample["cpu_us"] for sample in seen]
        rows.append(
            {"shape": shape, "router": name, **medians, "cpu_us_min": min(spread), "cpu_us_max": max(spread)}
        )
    for row in rows:
        for base in ("nginx", "sglang-router"):
            other = _cpu(rows, row["shape"], base)
            row[f"of_{base}"] = round(row["cpu_us"] / other, 3) if other else None
    return rows


def _cpu(rows: list[dict[str, Any]], shape: str, router: str) -> float | None:
    for row in rows:
        if row["shape"] == shape and row["router"] == router:
            return float(row["cpu_us"])
    return None


def _targets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    targets = []
    exact = [(name, 0.6) for name, shape in load.SHAPES.items() if shape.tokenizer]
    for shape, share in (("chat-120k", 0.6), *exact, ("chat-2k", 0.5)):
        ours, theirs = _cpu(rows, shape, "warmroute"), _cpu(rows, shape, "sglang-router")
        if ours and theirs:
            targets.append(
                _report.target(f"{shape}: CPU per request over sglang-router's", ours / theirs, share)
            )
    streamed = _cpu(rows, "stream-120", "warmroute")
    if streamed:
        targets.append(_report.target("stream-120: CPU per request, µs", streamed, 100))
    return targets


if __name__ == "__main__":
    sys.exit(main())
