"""Who may call, over what: API keys, the admin key, TLS, mutual TLS."""

from __future__ import annotations

import os
import subprocess
from array import array
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2

import warmroute
from tests.contract.rpc.conftest import StartEndpoint
from tests.contract.rpc.faults import Fault, fault_of
from tests.support import stubs
from warmroute.config import GrpcOptions
from warmroute.errors import ConfigError, Forbidden, Unauthorized
from warmroute.native import Prompter
from warmroute.rpc import Keys, Nobody, Server
from warmroute.rpc import keys as key_sources
from warmroute.rpc.members import Members
from warmroute.v1 import fleet_pb2
from warmroute.v1 import router_pb2 as pb

ROUTE = pb.RouteRequest(token_ids=array("I", range(1, 101)).tobytes())


def key(value: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {value}"),)


async def test_a_call_needs_a_key_where_there_are_some(start_endpoint: StartEndpoint, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# of the platform\nfirst-key\n\nsecond-key\n")
    async with start_endpoint(grpc_api_keys_file=str(path)) as endpoint:
        good = [key("first-key"), key("second-key"), (("x-api-key", "first-key"),)]
        for metadata in good:
            await endpoint.stub.Route(ROUTE, metadata=metadata)
        bad: list[tuple[tuple[str, str], ...]] = [
            (),
            key("third-key"),
            key(""),
            (("authorization", "first-key"),),
            (("authorization", "Basic first-key"),),
            (("x-api-key", "# of the platform"),),
        ]
        faults = [await fault_of(endpoint.stub.Route(ROUTE, metadata=metadata)) for metadata in bad]
        assert {(fault.code, fault.reason) for fault in faults} == {
            (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHORIZED")
        }
        assert not any(
            "key" in fault.message.replace("API key", "").replace("x-api-key", "") for fault in faults
        )
        calls = [
            endpoint.stub.Report(pb.ReportRequest(reservation=1)),
            endpoint.stub.Decide(pb.DecideRequest(request=ROUTE)),
            endpoint.stub.Explain(pb.ExplainRequest(request=ROUTE)),
            endpoint.stub.Generate(pb.GenerateRequest(request=ROUTE)).read(),
            endpoint.stub.RouteStream().read(),
            endpoint.fleet.ListWorkers(fleet_pb2.ListWorkersRequest()),
            endpoint.fleet.AddWorker(fleet_pb2.AddWorkerRequest(url="http://10.0.0.9:8000")),
            endpoint.fleet.DrainWorker(fleet_pb2.DrainWorkerRequest(name="w1")),
            endpoint.fleet.RemoveWorker(fleet_pb2.RemoveWorkerRequest(name="w1")),
            endpoint.fleet.WatchWorkers(fleet_pb2.WatchWorkersRequest()).read(),
        ]
        assert {(await fault_of(call)).reason for call in calls} == {"UNAUTHORIZED"}
        # Whoever looks whether the router is there has no key.
        status = await stubs.health(endpoint.channel).Check(health_pb2.HealthCheckRequest())
        assert status.status == health_pb2.HealthCheckResponse.SERVING
        assert endpoint.open == 3
        assert len(endpoint.router.workers()) == 2


def test_keys_come_from_a_file_and_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("one\n")
    keys = key_sources.read(str(path), "KEYS", {"KEYS": " two , three"})
    for each in ("one", "two", "three"):
        keys.check(key(each))
    with pytest.raises(Unauthorized):
        keys.check(key("two , three"))
    assert not key_sources.read(None, None, {})
    for file, variable in ((str(tmp_path / "none"), None), (None, "OTHER")):
        with pytest.raises(ConfigError) as raised:
            key_sources.read(file, variable, {"KEYS": "secret-key"})
        assert "secret-key" not in str(raised.value)
    path.write_text("# nothing\n\n")
    with pytest.raises(ConfigError):
        key_sources.read(str(path), None, {})
    assert "one" not in repr(vars(keys))
    with pytest.raises(Forbidden):
        Nobody("why").check(key("one"))


async def test_changing_the_fleet_takes_the_admin_key() -> None:
    router = warmroute.Router()
    router.add_worker("w1", url="http://10.0.0.1:8000")
    options = GrpcOptions(grpc_port=0)
    drain = fleet_pb2.DrainWorkerRequest(name="w1")

    async def fault(changers: Keys, metadata: Any) -> Fault | None:
        server = Server(
            router, Prompter(), Members(router), options, is_ready=lambda: True, changers=changers
        )
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
                await stubs.router(channel).Route(ROUTE)
                call = stubs.fleet(channel).DrainWorker(drain, metadata=metadata)
                if metadata == key("admin"):
                    await call
                    return None
                return await fault_of(call)
        finally:
            await server.stop()

    told = await fault(Nobody("not here"), ())
    assert told is not None
    assert (told.code, told.reason) == (grpc.StatusCode.PERMISSION_DENIED, "FORBIDDEN")
    told = await fault(Keys(["admin"]), ())
    assert told is not None
    assert told.code is grpc.StatusCode.UNAUTHENTICATED
    assert await fault(Keys(["admin"]), key("admin")) is None


class Authority:
    """A certificate authority that openssl makes in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self._run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                  "-keyout", f"{name}.key", "-out", f"{name}.pem")  # fmt: skip

    def sign(self, name: str) -> None:
        """A key and a certificate for 127.0.0.1."""
        self._run("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
                  "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
        (self.folder / f"{name}.ext").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        signer = ("-CA", f"{self.name}.pem", "-CAkey", f"{self.name}.key", "-CAcreateserial", "-days", "2")
        files = ("-in", f"{name}.csr", "-extfile", f"{name}.ext", "-out", f"{name}.pem")
        self._run("x509", "-req", *signer, *files)

    def path(self, name: str) -> str:
        """The path of a file."""
        return str(self.folder / name)

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        return (self.folder / name).read_bytes()

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)


async def route(port: int, credentials: grpc.ChannelCredentials, within: float = 20) -> pb.RouteResponse:
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        response: pb.RouteResponse = await stubs.router(channel).Route(ROUTE, timeout=within)
        return response


async def test_tls_and_a_certificate_that_is_renewed(start_endpoint: StartEndpoint, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    authority.sign("server")
    options = {"grpc_tls_cert": authority.path("server.pem"), "grpc_tls_key": authority.path("server.key")}
    async with start_endpoint(**options) as endpoint:
        trusting = grpc.ssl_channel_credentials(authority.read("ca.pem"))
        assert (await route(endpoint.port, trusting)).reservation
        other = Authority(tmp_path, "other")
        with pytest.raises(grpc.aio.AioRpcError):
            await route(endpoint.port, grpc.ssl_channel_credentials(other.read("other.pem")), within=5)
        with pytest.raises(grpc.aio.AioRpcError):
            await endpoint.stub.Route(ROUTE, timeout=5)
        # Another authority signs the server's next certificate: it is taken up without a restart.
        other.sign("server")
        for name in ("server.pem", "server.key"):
            os.utime(tmp_path / name, ns=(1, 1))
        assert (await route(endpoint.port, grpc.ssl_channel_credentials(other.read("other.pem")))).reservation
        # One that cannot be read leaves the one before.
        (tmp_path / "server.pem").write_text("nothing")
        assert (await route(endpoint.port, grpc.ssl_channel_credentials(other.read("other.pem")))).reservation


async def test_mutual_tls(start_endpoint: StartEndpoint, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    for name in ("server", "client"):
        authority.sign(name)
    stranger = Authority(tmp_path, "other")
    stranger.sign("stranger")
    options = {
        "grpc_tls_cert": authority.path("server.pem"),
        "grpc_tls_key": authority.path("server.key"),
        "grpc_tls_client_ca": authority.path("ca.pem"),
    }
    async with start_endpoint(**options) as endpoint:
        root = authority.read("ca.pem")
        known = grpc.ssl_channel_credentials(root, authority.read("client.key"), authority.read("client.pem"))
        assert (await route(endpoint.port, known)).reservation
        unknown = grpc.ssl_channel_credentials(
            root, authority.read("stranger.key"), authority.read("stranger.pem")
        )
        for credentials in (grpc.ssl_channel_credentials(root), unknown):
            with pytest.raises(grpc.aio.AioRpcError):
                await route(endpoint.port, credentials, within=5)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"grpc_tls_cert": "here.pem"}, "grpc.grpc_tls_key"),
        ({"grpc_tls_key": "here.pem"}, "grpc.grpc_tls_cert"),
        ({"grpc_tls_cert": "here.pem", "grpc_tls_key": "none.pem"}, "grpc.grpc_tls_cert"),
        ({"grpc_tls_cert": "here.pem", "grpc_tls_key": "here.pem"}, "grpc.grpc_tls_key"),
    ],
)
def test_certificates_that_cannot_be_used(tmp_path: Path, given: dict[str, str], key: str) -> None:
    (tmp_path / "here.pem").write_text("no PEM")
    options = GrpcOptions(grpc_port=0, **{name: str(tmp_path / file) for name, file in given.items()})  # type: ignore[arg-type]
    router = warmroute.Router()
    with pytest.raises(ConfigError) as raised:
        Server(router, Prompter(), Members(router), options, is_ready=lambda: True)
    assert raised.value.key == key
