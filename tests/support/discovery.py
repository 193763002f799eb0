"""Ways to tell a router of workers, each with the same few verbs, so that one test can be played on all."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import grpc

from tests.support.dns_server import DnsServer
from tests.support.fake_worker import FakeWorker
from tests.support.http import Reply, request
from tests.support.kubernetes import Cluster, endpoint, slice_of
from tests.support.process import Router, free_port
from warmroute.v1 import fleet_pb2 as fb
from warmroute.v1.fleet_pb2_grpc import FleetStub

KEY = "a-key-of-sixteen-characters"
SERVICE = "_http._tcp.vllm.test"
AS_ADMIN = (("authorization", f"Bearer {KEY}"),)
WORKERS = "/warmroute/v1/workers"


class Way(ABC):
    """One source. Workers are listed by the names that a test gives them.

    `lists_on` tells whether the source goes on to list a worker that drains.
    """

    flags: tuple[str, ...] = ()
    lists_on = False
    can_change = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        key = folder / "key"
        key.write_text(KEY)
        self.key_flags = ("--admin-key-file", str(key))

    async def __aenter__(self) -> Way:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    @property
    def environment(self) -> dict[str, str]:
        """What the router's environment has to have."""
        return {}

    def named(self, name: str, worker: FakeWorker) -> str:
        """The router's name of a worker."""
        return name

    @abstractmethod
    async def lists(self, router: Router | None, workers: Mapping[str, FakeWorker]) -> None:
        """These workers, and no others, are listed; without a router before it starts."""

    async def drain(self, router: Router, name: str, worker: FakeWorker) -> None:
        """A worker takes nothing more: by hand, unless the source itself can say so."""
        reply = await admin(router, "POST", f"{self.named(name, worker)}/drain")
        assert reply.status == 200, reply.body


async def admin(router: Router, method: str, path: str, body: bytes | None = None) -> Reply:
    """A request of the admin API, with the key."""
    where = f"{WORKERS}/{quote(path, safe='/')}" if path else WORKERS
    headers = [("authorization", f"Bearer {KEY}")]
    return await request(router.port, where, body, method=method, headers=headers)


class ByConfig(Way):
    """Flags: they do not change while the router runs."""

    can_change = False

    async def lists(self, router: Router | None, workers: Mapping[str, FakeWorker]) -> None:
        if router is None:
            self.flags = tuple(
                flag for name, worker in workers.items() for flag in ("--worker", f"{name}={worker.url}")
            )
            self._listed = dict(workers)
            return
        for name in self._listed.keys() - workers.keys():
            assert (await admin(router, "DELETE", name)).status == 200


class ByApi(Way):
    """The admin API."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._listed: dict[str, FakeWorker] = {}
        self._pending: dict[str, FakeWorker] = {}

    async def lists(self, router: Router | None, workers: Mapping[str, FakeWorker]) -> None:
        if router is None:
            self._pending = dict(workers)
            return
        gone = [name for name in self._listed if workers.get(name) is not self._listed[name]]
        for name in gone:
            assert (await admin(router, "DELETE", name)).status == 200
        for name in workers.keys() - (self._listed.keys() - set(gone)):
            body = json.dumps({"url": workers[name].url, "name": name}).encode()
            assert (await admin(router, "POST", "", body)).status == 201
        self._listed = dict(workers)

    async def catch_up(self, router: Router) -> None:
        """What was listed before the router was there."""
        await self.lists(router, self._pending)


class ByGrpc(ByApi):
    """The gRPC endpoint's `Fleet`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = free_port()
        self.flags = ("--grpc-port", str(self._port))

    async def lists(self, router: Router | None, workers: Mapping[str, FakeWorker]) -> None:
        if router is None:
            await super().lists(router, workers)
            return
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._port}") as channel:
            fleet = FleetStub(channel)  # type: ignore[no-untyped-call]
            for name in [name for name in self._listed if workers.get(name) is not self._listed[name]]:
                gone = fb.RemoveWorkerRequest(name=name)
                await fleet.RemoveWorker(gone, metadata=AS_ADMIN, wait_for_ready=True)
            for name, worker in workers.items():
                # Adding again changes nothing.
                added = fb.AddWorkerRequest(name=name, url=worker.url)
                await fleet.AddWorker(added, metadata=AS_ADMIN, wait_for_ready=True)
        self._listed = dict(workers)

    async def drain(self, router: Router, name: str, worker: FakeWorker) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._port}") as channel:
            fleet = FleetStub(channel)  # type: ignore[no-untyped-call]
            await fleet.DrainWorker(fb.DrainWorkerRequest(name=name), metadata=AS_ADMIN)


class ByFile(Way):
    """A watched file."""

    lists_on = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._path = folder / "workers.toml"
        self.flags = ("--workers-file", str(self._path), "--workers-file-interval-ms", "20")

    async def lists(self, router: Router | None, workers: Mapping[str, FakeWorker]) -> None:
        tables = [f'[[worker]]\nname = "{name}"\nurl = "{worker.url}"\n' for name, worker in workers.items()]
        fresh = self._path.with_name("workers.new")
        fresh.write_text("".join(tables) or "worker = []\n")
        fresh.rename(self._path)


class ByDns(Way):
    """SRV records."""

    lists_on = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = DnsServer()

    async def __aenter__(self) -> Way:
        await self._server.__aenter__()
        times = ("--dns-min-interval-ms", "20", "--dns-max-interval-ms", "40", "--dns-keep-ms", "0")
        self.flags = ("--dns", SERVICE, "--dns-server", self._server.address, *times)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    def named(self, name: str, worker: FakeWorker) -> str:
        return f"{name}.test:{worker.port}"

    async def lists(self, router: Router | None, workers: Mapping[str, FakeWorker]) -> None:
        self._server.service(SERVICE, {f"{name}.test": worker.port for name, worker in workers.items()})


class ByKubernetes(Way):
    """EndpointSlices, one for each port: a slice has the same ports for all of its endpoints."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._cluster = Cluster()
        self._listed: dict[str, FakeWorker] = {}
        self.flags = ("--kubernetes-service", "vllm")

    async def __aenter__(self) -> Way:
        await self._cluster.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._cluster.__aexit__()

    @property
    def environment(self) -> dict[str, str]:
        return {"KUBECONFIG": str(self._cluster.kubeconfig(self.folder / "kubeconfig"))}

    async def lists(self, router: Router | None, workers: Mapping[str, FakeWorker]) -> None:
        for name in self._listed.keys() - workers.keys():
            await self._cluster.delete("slices", name)
        for name in workers.keys() - self._listed.keys():
            await self._cluster.put("slices", name, **slice_of(workers[name].port, endpoint(name)))
        self._listed = dict(workers)

    async def drain(self, router: Router, name: str, worker: FakeWorker) -> None:
        ending = endpoint(name, ready=False, terminating=True)
        await self._cluster.put("slices", name, **slice_of(worker.port, ending))
        self.lists_on = True


WAYS: dict[str, type[Way]] = {
    "flags": ByConfig,
    "api": ByApi,
    "grpc": ByGrpc,
    "file": ByFile,
    "dns": ByDns,
    "kubernetes": ByKubernetes,
}
