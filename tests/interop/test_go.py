"""A Go client that the ordinary Go plugins make of the proto."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.conftest import KEY, ROOT, Target, go

EXAMPLE = ROOT / "examples" / "go"


@pytest.fixture(scope="session")
def module(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's module, with code that is generated for these tests, and their client."""
    folder = tmp_path_factory.mktemp("module")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("v1"))
    environment = {**os.environ, "GO_PLUGINS": str(tools), "PYTHON": sys.executable}
    done = subprocess.run(
        [str(EXAMPLE / "generate.sh"), str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    shutil.copytree(Path(__file__).parent / "client", folder / "cmd" / "check")
    go("build", "-o", str(folder), "./cmd/...", cwd=folder)
    return folder


async def run(*command: str | Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(150):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


def test_the_committed_code_is_what_the_plugins_make(module: Path) -> None:
    made = {path.name: path.read_text() for path in (module / "v1").iterdir()}
    kept = {path.name: path.read_text() for path in (EXAMPLE / "v1").iterdir()}
    assert kept == made, "run `make proto`"


async def test_a_go_client(module: Path, target: Target) -> None:
    output = await run(module / "check", target.address, KEY)
    assert output.count("ok: ") == 11, output


async def test_the_example(module: Path, target: Target) -> None:
    output = await run(module / "route", "-router", target.address, "-model", "sim", "-key", KEY, "-generate")
    assert "holds 0 of 2000 tokens: REASON_COLD" in output
    assert "32 tokens" in output
