"""A router over simulated workers, and the tools that call it. Without Go these tests are skipped."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.process import Router, free_port
from warmroute.native import SimServer

ROOT = Path(__file__).parents[2]
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"
KEY = "a-key-of-the-tests"


@dataclass
class Target:
    """Where the router's gRPC endpoint is, and the key that it wants."""

    address: str
    router: Router


def go(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs go; a failure shows what it wrote."""
    done = subprocess.run(
        ["go", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done


@pytest.fixture(scope="session")
def needs_go() -> None:
    """Skips where go is not on the path."""
    if shutil.which("go") is None:
        pytest.skip("go is not on the path")


@pytest.fixture(scope="session")
def tools(needs_go: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with grpcurl and the Go plugins of protoc; `GO_TOOLS` names one that is kept."""
    folder = Path(os.environ.get("GO_TOOLS") or tmp_path_factory.mktemp("tools"))
    if not (folder / "grpcurl").exists():
        go("install", GRPCURL, cwd=folder, GOBIN=str(folder))
    return folder


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    """Two simulated workers behind a router that wants a key."""
    servers = [SimServer(model="sim", speed=1.0) for _ in range(2)]
    port = free_port()
    keys = tmp_path / "keys"
    keys.write_text(KEY + "\n")
    flags = ("--grpc-port", str(port), "--grpc-api-keys-file", str(keys))
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)
        urls = [f"http://127.0.0.1:{server.port}" for server in servers]
        async with Router(tmp_path / "router.log", urls, *flags) as router:
            await router.sees_ready(2)
            yield Target(f"127.0.0.1:{port}", router)
