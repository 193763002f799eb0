"""What many workers cost: a decision among them, and the scraping of their metrics.

python -m bench.fleet.run [--seconds N] [--repeats N]
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import uvloop

import warmroute
from bench import _report
from tests.support.vllm_page import page
from warmroute.config import FleetOptions, WorkerOptions
from warmroute.fleet import Fleet, Scraper, WorkerClient

FLEETS = (1, 16, 256, 1024)
PROMPT_TOKENS = 30_000
BLOCK = 16
WARM_CALLS = 20
# The share of a core that scraping 256 workers may take.
SCRAPE_SHARE = 0.05


def main() -> int:
    """Measures, prints and writes `results/fleet.json`; fails where a target is missed."""
    parser = _report.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    decisions = decision_times(arguments.repeats, random.Random(arguments.seed))
    print(_report.table(decisions))
    scrapes = [
        scrape_cost(count, engines, arguments.seconds)
        for count, engines in ((16, 1), (256, 1), (256, 2), (1024, 1))
    ]
    print(_report.table(scrapes))
    targets = [
        _report.target(
            "one more worker: what it adds to a decision between 256 and 1,024, over between 16 and 256",
            _added(decisions, 256, 1024) / _added(decisions, 16, 256),
            1.5,
        ),
        *(
            _report.target(
                f"scraping 256 workers, {row['page_bytes']} bytes a page: share of a core",
                row["scrape_share"],
                SCRAPE_SHARE,
            )
            for row in scrapes
            if row["workers"] == 256
        ),
    ]
    options = FleetOptions()
    return _report.finish(
        "fleet",
        seed=arguments.seed,
        versions={name: _report.version(name) for name in ("warmroute", "aiohttp", "uvloop")},
        parameters={
            "prompt_tokens": PROMPT_TOKENS,
            "repeats": arguments.repeats,
            "seconds": arguments.seconds,
            "probe_interval_ms": options.probe_interval_ms,
            "scrape_interval_ms": options.scrape_interval_ms,
        },
        results=[*decisions, *scrapes],
        targets=targets,
    )


def decision_times(repeats: int, rng: random.Random) -> list[dict[str, Any]]:
    """Medians in microseconds for each size of fleet; the fleets take turns: slow moments meet all."""
    prompt = array("I", [rng.randrange(128_000) for _ in range(PROMPT_TOKENS)]).tobytes()
    short = prompt[: 512 * 4]
    routers = {count: _router(count, prompt) for count in FLEETS}
    calls: dict[str, Callable[[warmroute.Router], object]] = {
        "decide_us": lambda router: router.decide(prompt),
        "decide_short_us": lambda router: router.decide(short),
        "route_us": lambda router: router.route(prompt).close(),
    }
    samples: dict[tuple[int, str], list[int]] = {(count, name): [] for count in FLEETS for name in calls}
    for turn in range(WARM_CALLS + repeats):
        for count, router in routers.items():
            for name, call in calls.items():
                start = time.perf_counter_ns()
                call(router)
                if turn >= WARM_CALLS:
                    samples[(count, name)].append(time.perf_counter_ns() - start)
    return [
        {
            "what": "decision",
            "workers": count,
            **{name: round(statistics.median(samples[(count, name)]) / 1e3, 1) for name in calls},
        }
        for count in FLEETS
    ]


def _added(rows: list[dict[str, Any]], few: int, many: int) -> float:
    """What one more worker adds to the decision of a short prompt, in microseconds."""
    times = {row["workers"]: row["decide_short_us"] for row in rows}
    return float(times[many] - times[few]) / (many - few)


def _router(count: int, prompt: bytes) -> warmroute.Router:
    """A router whose workers hold more and more of the prompt, have requests, and are seen by others, too."""
    router = warmroute.Router(block_size=BLOCK)
    for number in range(count):
        name = f"w{number}"
        router.add_worker(name, url=f"http://{name}:8000", kv_blocks=26_000, models=["llama"])
        held = PROMPT_TOKENS * (number + 1) // count // BLOCK * BLOCK
        router.route(prompt[: held * 4], avoid=[f"w{other}" for other in range(number)]).close()
        router.observe_worker(name, others=number % 5, kv_usage=0.5, valid_s=3600)
    return router


def scrape_cost(count: int, engines: int, seconds: float) -> dict[str, Any]:
    """The CPU that looks and scrapes of so many workers take in this process, with the default intervals."""
    with _workers(count, engines) as urls:
        probed, _ = uvloop.run(_watch(urls, seconds, scrapes=False))
        both, pages = uvloop.run(_watch(urls, seconds, scrapes=True))
    return {
        "what": "scraping",
        "workers": count,
        "page_bytes": len(page(engines=engines)),
        "probe_share": round(probed, 5),
        "scrape_share": round(both - probed, 5),
        "pages_per_s": round(pages / seconds, 1),
        "us_per_page": round((both - probed) * seconds / max(1, pages) * 1e6, 1),
    }


async def _watch(urls: list[str], seconds: float, *, scrapes: bool) -> tuple[float, int]:
    """The share of a core over some seconds once all workers are up, and the pages that were read."""
    options = FleetOptions()
    router = warmroute.Router(block_size=BLOCK)
    async with WorkerClient(options.probe_timeout_ms / 1000) as client:
        scraper = Scraper(router, client, options)
        fleet = Fleet(router, client, options, block_size=BLOCK, scraper=scraper if scrapes else None)
        for number, url in enumerate(urls):
            fleet.add(WorkerOptions(url=url, name=f"w{number}"))
        async with asyncio.timeout(120):
            while sum(worker.state == "ready" for worker in router.workers()) < len(urls):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        before, began = _pages(scraper), time.process_time()
        await asyncio.sleep(seconds)
        share, pages = (time.process_time() - began) / seconds, _pages(scraper) - before
        await scraper.close()
        await fleet.close()
    expected = len(urls) * seconds / (options.scrape_interval_ms / 1000)
    if scrapes and not 0.5 * expected < pages < 1.5 * expected:
        raise RuntimeError(f"{pages} pages were read where {expected:.0f} are due")
    return share, pages


def _pages(scraper: Scraper) -> int:
    return sum(stats["scrapes"] for stats in scraper.stats().values())


@contextlib.contextmanager
def _workers(count: int, engines: int) -> Iterator[list[str]]:
    command = [sys.executable, "-m", "bench.fleet.workers", str(count), str(engines)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_report.ROOT) as process:
        assert process.stdout is not None
        try:
            yield [f"http://127.0.0.1:{port}" for port in process.stdout.readline().split()]
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
