from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence

import dns.rcode
import pytest

from tests.support.dns_server import DnsServer
from warmroute.errors import ConfigError
from warmroute.fleet.discovery import Listing
from warmroute.fleet.discovery import dns as dns_module
from warmroute.fleet.discovery.dns import Answer, DnsSource, LookupFault, Resolver, Target
from warmroute.fleet.discovery.standing import SAID_LIMIT, Standing

SRV = "_http._tcp.vllm.test"
# Longer than any test runs: only a test's own clock comes past it.
KEEP_S = 1_000.0


@pytest.fixture
async def server() -> AsyncIterator[DnsServer]:
    async with DnsServer() as one:
        yield one


class Clock:
    """The real one, and what a test adds."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


class Watched:
    """What a source publishes last, as name and URL."""

    def __init__(self, source: DnsSource, resolver: Resolver, clock: Clock) -> None:
        self.source = source
        self.resolver = resolver
        self.clock = clock
        self.last: dict[str, str] | None = None
        self.sets = 0
        self._then: tuple[dict[str, str], Callable[[], None]] | None = None
        self._task = asyncio.create_task(source.run(self.publish))

    def answers_within(self, seconds: float) -> None:
        """How long the resolver waits from the next question on."""
        self.resolver._resolver.lifetime, self.resolver._resolver.timeout = seconds, seconds / 2

    def publish(self, listings: Sequence[Listing]) -> None:
        self.sets += 1
        self.last = {listing.name: listing.worker.url for listing in listings}
        if self._then is not None and self._then[0] == self.last:
            act, self._then = self._then[1], None
            act()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                assert not self._task.done(), self._task.exception()
                await asyncio.sleep(0.002)

    async def becomes(self, wanted: dict[str, str]) -> None:
        await self.until(lambda: self.last == wanted)

    async def after(self, wanted: dict[str, str], act: Callable[[], None]) -> None:
        """Act at once when that is published: no lookup is under way then, however slow the machine is."""
        self._then = (wanted, act)
        await self.until(lambda: self._then is None)

    async def more(self, sets: int = 3) -> None:
        enough = self.sets + sets
        await self.until(lambda: self.sets >= enough)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


Watch = Callable[..., Watched]


@pytest.fixture
async def watch(server: DnsServer) -> AsyncIterator[Watch]:
    started: list[Watched] = []

    def start(*names: str, up: Sequence[str] = ()) -> Watched:
        resolver, clock = Resolver(server.address, 10), Clock()
        source = DnsSource(
            names, resolver, ttl_s=(0.01, 0.02), keep_s=KEEP_S, is_up=lambda url: url in up, clock=clock
        )
        started.append(Watched(source, resolver, clock))
        return started[-1]

    yield start
    for each in started:
        await each.stop()


async def test_addresses_of_a_host(server: DnsServer, watch: Watch) -> None:
    server.records[("vllm.test", "A")] = ["10.0.0.2", "10.0.0.1"]
    server.records[("vllm.test", "AAAA")] = ["fd00::1"]
    watched = watch("vllm.test:8000")
    # The same workers by their other addresses are not other workers.
    await watched.becomes({"10.0.0.1:8000": "http://10.0.0.1:8000", "10.0.0.2:8000": "http://10.0.0.2:8000"})
    del server.records[("vllm.test", "A")]
    await watched.becomes({"[fd00::1]:8000": "http://[fd00::1]:8000"})


async def test_services(server: DnsServer, watch: Watch) -> None:
    server.service(SRV, {"w0.test": 8000, "w1.test": 8001})
    server.records[(SRV, "SRV")].append("1 0 8002 later.test.")
    watched = watch(SRV)
    await watched.becomes({"w0.test:8000": "http://127.0.0.1:8000", "w1.test:8001": "http://127.0.0.1:8001"})
    # A target without an address is no worker; one with two addresses is two.
    server.records[("w0.test", "A")] = ["10.0.0.1", "10.0.0.2"]
    server.records[("w1.test", "A")] = []
    await watched.becomes({"10.0.0.1:8000": "http://10.0.0.1:8000", "10.0.0.2:8000": "http://10.0.0.2:8000"})
    assert watched.source.standing.document()["failing"] is False


@pytest.mark.parametrize("fault", ["silent", "servfail", "empty", "nxdomain", "root"])
async def test_no_answer_removes_no_worker_that_is_up(
    server: DnsServer, watch: Watch, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.service(SRV, {"w0.test": 8000, "w1.test": 8001})
    # An answer is waited for as long as the machine needs, a silence not longer than a moment.
    watched = watch(SRV, up=["http://127.0.0.1:8000"])
    both = {"w0.test:8000": "http://127.0.0.1:8000", "w1.test:8001": "http://127.0.0.1:8001"}

    def fail() -> None:
        if fault == "silent":
            server.silent = True
            watched.answers_within(0.05)
        elif fault == "servfail":
            server.rcode = dns.rcode.SERVFAIL
        elif fault == "empty":
            server.records[(SRV, "SRV")] = []
        elif fault == "nxdomain":
            server.records.clear()
        else:
            server.records[(SRV, "SRV")] = ["0 0 0 ."]

    await watched.after(both, fail)
    await watched.until(lambda: watched.source.standing.failures > 0)
    assert watched.last == both
    # The silence lasts: the one that does not answer goes, the one that does stays.
    watched.clock.ahead_s += KEEP_S
    await watched.becomes({"w0.test:8000": "http://127.0.0.1:8000"})
    await watched.more()
    assert watched.last == {"w0.test:8000": "http://127.0.0.1:8000"}
    assert sum("cannot be used" in record.message for record in caplog.records) == 1
    server.silent, server.rcode = False, None
    watched.answers_within(10)
    server.service(SRV, {"w1.test": 8001})
    await watched.becomes({"w1.test:8001": "http://127.0.0.1:8001"})
    assert not watched.source.standing.document()["failing"]


def test_a_failure_is_said_once_whatever_part_of_it_comes_up_first(caplog: pytest.LogCaptureFixture) -> None:
    standing = Standing("dns")
    for turn in range(100):
        standing.bad(f"host {turn % 2}: no resolver answers")
    assert sum("cannot be used" in record.message for record in caplog.records) == 2
    for turn in range(100):
        standing.bad(f"host {turn}: no resolver answers")
    assert sum("cannot be used" in record.message for record in caplog.records) == SAID_LIMIT
    assert standing.document()["error"] == "host 99: no resolver answers"
    standing.good(1)
    standing.bad("host 0: no resolver answers")
    assert sum("cannot be used" in record.message for record in caplog.records) == SAID_LIMIT + 1


async def test_a_name_without_workers_is_said_once(
    server: DnsServer, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    watched = watch("later.test:8000")
    await watched.more()
    assert sum("no worker yet" in record.message for record in caplog.records) == 1
    assert not watched.source.standing.document()["failing"]
    server.records[("later.test", "A")] = ["10.0.0.1"]
    await watched.becomes({"10.0.0.1:8000": "http://10.0.0.1:8000"})


async def test_one_name_that_fails_does_not_hold_up_another(server: DnsServer, watch: Watch) -> None:
    server.records[("a.test", "A")] = ["10.0.0.1"]
    watched = watch("a.test:1", "b.test:2")
    await watched.becomes({"10.0.0.1:1": "http://10.0.0.1:1"})
    server.records[("b.test", "A")] = ["10.0.0.2"]
    await watched.becomes({"10.0.0.1:1": "http://10.0.0.1:1", "10.0.0.2:2": "http://10.0.0.2:2"})
    server.records[("a.test", "A")] = []
    server.records[("b.test", "A")] = ["10.0.0.3"]
    await watched.becomes({"10.0.0.1:1": "http://10.0.0.1:1", "10.0.0.3:2": "http://10.0.0.3:2"})


async def test_a_server_that_gives_a_part_each_time_loses_no_worker(server: DnsServer, watch: Watch) -> None:
    addresses = [f"10.0.0.{number}" for number in range(6)]
    server.records[("vllm.test", "A")] = addresses
    watched = watch("vllm.test:1")
    everybody = {f"{address}:1": f"http://{address}:1" for address in addresses}
    await watched.becomes(everybody)
    for turn in range(6):
        server.records[("vllm.test", "A")] = addresses[:3] if turn % 2 else addresses[3:]
        await watched.more(1)
        assert watched.last == everybody
    await watched.becomes({f"{address}:1": f"http://{address}:1" for address in addresses[:3]})


class Scripted:
    """Lookups that say when they were asked."""

    def __init__(self, ttl_s: float) -> None:
        self.ttl_s = ttl_s
        self.count = 3
        self.fails = False

    async def addresses(self, host: str) -> Answer:
        if self.fails:
            raise LookupFault(f"{host}: no")
        return Answer(tuple(f"10.0.0.{n}" for n in range(self.count)), self.ttl_s)

    async def services(self, name: str) -> tuple[list[Target], float]:
        return [Target("h", 1)], self.ttl_s


@pytest.mark.parametrize(
    ("ttl_s", "service", "low", "high"), [(0, False, 2, 2.2), (5, False, 5, 5.5), (900, True, 7, 7.7)]
)
async def test_the_time_to_live_is_obeyed_within_bounds(
    ttl_s: float, service: bool, low: float, high: float
) -> None:
    now = 100.0
    lookups = Scripted(ttl_s)
    name = SRV if service else "h:1"
    source = DnsSource([name], lookups, ttl_s=(2, 7), keep_s=1, is_up=lambda _: True, clock=lambda: now)
    assert await source._look(source._names[0]) == ""
    assert low <= source._names[0].due - now <= high
    lookups.fails = True
    assert "no" in await source._look(source._names[0])
    assert 2 <= source._names[0].due - now <= 2.2


async def test_an_answer_of_too_many_workers_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_module, "WORKERS_LIMIT", 2)
    source = DnsSource(["h:1"], Scripted(1), ttl_s=(1, 1), keep_s=1, is_up=lambda _: True)
    await source._look(source._names[0])
    assert len(source._names[0].workers) == 2


@pytest.mark.parametrize(
    "name", ["", "host", "host:0", "host:x", "10.0.0.1:80", "http://h:1", "a..b:1", "u@h:1"]
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        DnsSource([name], Scripted(1), ttl_s=(1, 1), keep_s=1, is_up=lambda _: True)


def test_a_resolver_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="resolver"):
        Resolver("no resolver", 1)
