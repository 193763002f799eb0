from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.support.vllm_page import page
from warmroute.config import FleetOptions, WorkerOptions
from warmroute.errors import UnknownWorker, WorkerReply, WorkerTimeout
from warmroute.fleet import Scraper, WorkerState
from warmroute.fleet.gauges import Gauges
from warmroute.fleet.health import Health, Status
from warmroute.fleet.pulse import Pulse
from warmroute.tasks import Tasks

OPTIONS = FleetOptions(scrape_interval_ms=1, probe_jitter=1.0)


class Port:
    """Router and client of the scraper."""

    def __init__(self) -> None:
        self.requests = 0
        self.page: bytes | Exception = page(running=5, waiting=2, usage=0.25)
        self.observed: list[tuple[str, int, float, float]] = []
        self.wanted = False
        self.hits: list[tuple[str, int, int]] = []
        self.pages = 0
        self.under_way = 0
        self.most = 0
        self.during: Callable[[], None] = lambda: None

    def worker_activity(self, name: str) -> tuple[int, int, float]:
        return self.requests, 0, 0.0

    def observe_worker(self, name: str, *, others: int, kv_usage: float, valid_s: float) -> None:
        self.observed.append((name, others, kv_usage, valid_s))

    def wants_hits(self, name: str) -> bool:
        return self.wanted

    def observe_hits(self, name: str, queries: int, hits: int) -> None:
        self.hits.append((name, queries, hits))

    async def metrics(self, worker: WorkerOptions) -> bytes:
        self.pages += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.during()
        self.under_way -= 1
        if isinstance(self.page, Exception):
            raise self.page
        return self.page


def state(name: str = "w1", status: Status = Status.UP) -> WorkerState:
    health = Health(3)
    health.status = status
    return WorkerState(WorkerOptions(url=f"http://{name}:1", name=name), health, Pulse(60))


@pytest.fixture
def port() -> Port:
    return Port()


@pytest.fixture
async def scraper(port: Port) -> AsyncIterator[Scraper]:
    scraper = Scraper(port, port, OPTIONS, tasks=Tasks((0.001, 0.001)))
    yield scraper
    await scraper.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_hits_are_told_where_they_are_wanted(port: Port, scraper: Scraper) -> None:
    scraper.add(state(), lambda _: None)
    await until(lambda: port.pages > 3)
    assert port.hits == []
    port.page, port.wanted = page(running=1, steps=3), True
    await until(lambda: ("w1", 300, 300) in port.hits)


async def test_a_page_without_hits_tells_none(port: Port, scraper: Scraper) -> None:
    port.wanted, port.page = True, b"vllm:num_requests_running 1\nvllm:prefix_cache_queries_total 5\n"
    scraper.add(state(), lambda _: None)
    await until(lambda: port.pages > 3)
    assert (port.hits, scraper.stats()["w1"]["scraped"]) == ([], True)


async def test_what_is_beyond_our_own_requests_is_others(port: Port, scraper: Scraper) -> None:
    seen: list[Gauges] = []
    port.requests = 3
    scraper.add(state(), seen.append)
    await until(lambda: bool(port.observed))
    assert port.observed[0] == ("w1", 4, 0.25, 0.003)
    assert (seen[0].requests, seen[0].kv_usage) == (7, 0.25)
    assert scraper.stats()["w1"]["scraped"]


async def test_requests_that_ended_a_moment_ago_are_not_taken_for_others(
    port: Port, scraper: Scraper
) -> None:
    port.requests = 7
    scraper.add(state(), lambda _: None)
    await until(lambda: bool(port.observed))
    # They end while the page is on its way; the engine counts them on for some seconds.
    port.during = lambda: setattr(port, "requests", 0)
    seen = len(port.observed)
    await until(lambda: port.requests == 0 and len(port.observed) > seen)
    assert port.observed[-1][1] == 0
    await until(lambda: port.observed[-1][1] == 7)


@pytest.mark.parametrize(
    "fault",
    [WorkerReply("404", 404), WorkerTimeout("slow"), WorkerReply("500", 500), b"", b"\xff", b"go_info 1\n"],
)
async def test_metrics_that_cannot_be_had_change_nothing(
    port: Port, scraper: Scraper, fault: bytes | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    port.page = fault
    scraper.add(state(), lambda _: None)
    await until(lambda: port.pages >= 3)
    assert port.observed == []
    stats = scraper.stats()["w1"]
    assert stats["scrape_failures"] >= 2
    assert not stats["scraped"]
    assert len(caplog.records) <= 1
    port.page = page()
    await until(lambda: bool(port.observed))
    assert scraper.stats()["w1"]["scraped"]


async def test_a_worker_that_is_down_is_not_scraped_unless_it_is_frozen(port: Port, scraper: Scraper) -> None:
    down, up = state("down", Status.DOWN), state("up")
    scraper.add(down, lambda _: None)
    scraper.add(up, lambda _: None)
    await until(lambda: len(port.observed) >= 5)
    assert {each[0] for each in port.observed} == {"up"}
    down.frozen_at = 0
    await until(lambda: port.observed[-1][0] == "down")


async def test_few_scrapes_are_under_way_at_once(port: Port) -> None:
    scraper = Scraper(port, port, FleetOptions(scrape_interval_ms=1, scrape_concurrency=2))
    for number in range(20):
        scraper.add(state(f"w{number}"), lambda _: None)
    await until(lambda: port.pages >= 100)
    await scraper.close()
    assert port.most == 2


async def test_a_worker_that_left_is_scraped_no_more(port: Port, scraper: Scraper) -> None:
    scraper.add(state(), lambda _: None)
    await until(lambda: bool(port.observed))
    scraper.remove("w1")
    pages = port.pages
    await asyncio.sleep(0.02)
    assert port.pages <= pages + 1
    assert scraper.stats() == {}


async def test_a_router_that_does_not_know_the_worker_ends_it(
    port: Port, scraper: Scraper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(name: str) -> tuple[int, int, float]:
        raise UnknownWorker(name)

    monkeypatch.setattr(port, "worker_activity", unknown)
    scraper.add(state(), lambda _: None)
    await until(scraper._tasks["w1"].done)


async def test_a_fault_of_ours_does_not_end_it(port: Port, scraper: Scraper) -> None:
    port.page = RuntimeError("a fault of ours")
    scraper.add(state(), lambda _: None)
    await until(lambda: scraper._runner.failures()["scrape"] >= 2)
    port.page = page(running=5, waiting=2, usage=0.25)
    await until(lambda: scraper.stats()["w1"]["scraped"])
