"""Workers from DNS: the addresses of a host (A, AAAA), or the hosts and ports of a service (SRV).

An answer that is empty, or does not come, removes no worker that is up: a resolver's fault must not empty
the fleet. One that is down goes once the silence has lasted.
"""

import asyncio
import ipaddress
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import dns.asyncresolver
import dns.exception
import dns.rdatatype
import dns.resolver

from warmroute.config import WorkerOptions
from warmroute.config.worker import split_port, worker_of
from warmroute.errors import ConfigError
from warmroute.fleet.discovery.listing import DNS, Listing, Publish
from warmroute.fleet.discovery.standing import Standing
from warmroute.logs import get

# Workers of one name; an answer with more is not a fleet's.
WORKERS_LIMIT = 1_024
# Answers in a row from which a worker has to be missing: some servers give a part of the addresses, another
# one each time.
MISSES = 3
# Answers are looked up again a little late, so that many routers do not ask in step.
JITTER = 0.1

log = get("discovery")


class LookupFault(Exception):
    """There is no answer, or none that is used."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Addresses or targets, and for how long they hold, in seconds."""

    values: tuple[str, ...]
    ttl_s: float


@dataclass(frozen=True, slots=True)
class Target:
    """One line of an SRV answer."""

    host: str
    port: int


class Lookups(Protocol):
    """Who asks; `LookupFault` where nobody says anything, nothing where there is nothing."""

    async def addresses(self, host: str) -> Answer:
        """The addresses of a host: IPv4, or IPv6 where it has no other."""

    async def services(self, name: str) -> tuple[list[Target], float]:
        """The targets of a service with the lowest priority number, and for how long they hold."""


class Resolver:
    """Asks the system's resolvers, or one that is named."""

    def __init__(self, server: str | None, timeout_s: float) -> None:
        """Take `IP[:PORT]` of a resolver, or none, and how long one question may take."""
        self._resolver = dns.asyncresolver.Resolver(configure=server is None)
        if server is not None:
            address, port = split_port(server, 53)
            self._resolver.nameservers = [address]
            self._resolver.port = port
        self._resolver.lifetime = timeout_s
        self._resolver.timeout = timeout_s / 2

    async def addresses(self, host: str) -> Answer:
        """As in `Lookups`."""
        for kind in (dns.rdatatype.A, dns.rdatatype.AAAA):
            answer = await self._ask(host, kind)
            if answer is not None:
                values = tuple(str(record.address) for record in answer)
                return Answer(values, answer.chaining_result.minimum_ttl)
        return Answer((), 0.0)

    async def services(self, name: str) -> tuple[list[Target], float]:
        """As in `Lookups`."""
        answer = await self._ask(name, dns.rdatatype.SRV)
        if answer is None:
            return [], 0.0
        least = min(record.priority for record in answer)
        records = [record for record in answer if record.priority == least and str(record.target) != "."]
        targets = [Target(str(record.target).rstrip("."), record.port) for record in records]
        return targets, answer.chaining_result.minimum_ttl

    async def _ask(self, name: str, kind: dns.rdatatype.RdataType) -> dns.resolver.Answer | None:
        try:
            return await self._resolver.resolve(name, kind, search=True)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return None
        except (dns.exception.DNSException, OSError) as error:
            raise LookupFault(f"{name} {dns.rdatatype.to_text(kind)}: {_said(error)}") from None


@dataclass(slots=True)
class Name:
    """One name that is looked up, and what it gave last."""

    text: str
    good_at: float
    missed: dict[str, int] = field(default_factory=dict)
    workers: tuple[WorkerOptions, ...] = ()
    due: float = -math.inf

    @property
    def is_service(self) -> bool:
        """Whether it names a service, whose answer has the ports."""
        return self.text.startswith("_")


class DnsSource:
    """The workers that some names stand for."""

    name = DNS

    def __init__(
        self,
        names: Sequence[str],
        lookups: Lookups,
        *,
        ttl_s: tuple[float, float],
        keep_s: float,
        is_up: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take `HOST:PORT` or `_service._tcp.HOST`, who asks, and the least and most time between lookups.

        After `keep_s` without a useful answer, workers go of whose URL `is_up` says no.
        """
        for text in names:
            _checked(text)
        self._clock = clock
        self._names = [Name(text, clock()) for text in names]
        self._lookups = lookups
        self._ttl_s = ttl_s
        self._keep_s = keep_s
        self._is_up = is_up
        self.standing = Standing(DNS)

    async def run(self, publish: Publish) -> None:
        """Look up each name when its last answer ends, and publish what all of them gave."""
        while True:
            now = self._clock()
            due = [name for name in self._names if name.due <= now]
            faults = await asyncio.gather(*(self._look(name) for name in due))
            found = {worker.url: worker for name in self._names for worker in name.workers}
            publish([Listing(worker) for worker in found.values()])
            if fault := next((fault for fault in faults if fault), ""):
                self.standing.workers = len(found)
                self.standing.bad(fault)
            else:
                self.standing.good(len(found))
            await asyncio.sleep(max(0.0, min(name.due for name in self._names) - self._clock()))

    async def _look(self, name: Name) -> str:
        """Look up one name; says what is wrong, if anything is."""
        fault, ttl_s = "", 0.0
        try:
            workers, ttl_s = await self._workers(name)
            if workers:
                name.workers, name.good_at = _with_missing(name, workers), self._clock()
            elif name.workers:
                fault = f"{name.text}: the answer is empty"
            else:
                # No fault where the fleet is still to come, and the only sign of a name that is mistyped.
                log.once(name.text, "a name stands for no worker yet: it is asked again", name=name.text)
        except LookupFault as error:
            fault = str(error)
        if fault and self._clock() - name.good_at > self._keep_s:
            name.workers = tuple(worker for worker in name.workers if self._is_up(worker.url))
        low, high = self._ttl_s
        wait = min(max(ttl_s, low), high)
        name.due = self._clock() + wait * random.uniform(1, 1 + JITTER)  # noqa: S311 - moves lookups apart
        return fault

    async def _workers(self, name: Name) -> tuple[tuple[WorkerOptions, ...], float]:
        if not name.is_service:
            host, port = split_port(name.text, None)
            answer = await self._lookups.addresses(host)
            return _listed(name, [_worker(address, port) for address in answer.values]), answer.ttl_s
        targets, ttl_s = await self._lookups.services(name.text)
        answers = await asyncio.gather(*(self._lookups.addresses(target.host) for target in targets))
        found: list[WorkerOptions] = []
        for target, answer in zip(targets, answers, strict=True):
            ttl_s = min(ttl_s, answer.ttl_s) if answer.values else ttl_s
            # A host with several addresses is several workers: each is called by its address.
            called = f"{target.host}:{target.port}" if len(answer.values) == 1 else None
            found.extend(_worker(address, target.port, called) for address in answer.values)
        return _listed(name, found), ttl_s


def _with_missing(name: Name, workers: tuple[WorkerOptions, ...]) -> tuple[WorkerOptions, ...]:
    """The workers of an answer, and those that have not been missing for long enough."""
    urls = {worker.url for worker in workers}
    missing = [worker for worker in name.workers if worker.url not in urls]
    name.missed = {worker.url: name.missed.get(worker.url, 0) + 1 for worker in missing}
    return (*workers, *(worker for worker in missing if name.missed[worker.url] < MISSES))


def _listed(name: Name, workers: list[WorkerOptions]) -> tuple[WorkerOptions, ...]:
    if len(workers) > WORKERS_LIMIT:
        log.once(name.text, "a name stands for too many workers: the rest is left out", limit=WORKERS_LIMIT)
    return tuple(sorted(workers, key=lambda worker: worker.url)[:WORKERS_LIMIT])


def _worker(address: str, port: int, called: str | None = None) -> WorkerOptions:
    host = f"[{address}]" if ":" in address else address
    url = f"http://{host}:{port}"
    try:
        return worker_of(f"{called}={url}" if called else url, DNS)
    except ConfigError:
        # A host's name that is none for a worker.
        return worker_of(url, DNS)


def _checked(text: str) -> None:
    allowed = "HOST:PORT, or _SERVICE._tcp.HOST for SRV records"
    try:
        if not text.startswith("_"):
            host, port = split_port(text, None)
            if _is_address(host) or not 0 < port < 65_536:
                raise ValueError(text)
        dns.name.from_text(text if text.startswith("_") else host)
    except (ValueError, dns.exception.DNSException):
        raise ConfigError("fleet.dns", text, allowed) from None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _said(error: Exception) -> str:
    return (
        "no resolver answers"
        if isinstance(error, dns.exception.Timeout)
        else (str(error) or type(error).__name__)
    )
