"""What README.md and the quickstart tell to paste is pasted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from pathlib import Path

import warmroute
import warmroute.rpc
from tests.support.process import free_port
from warmroute.config import GrpcOptions
from warmroute.sim import TOKENIZER

ROOT = Path(__file__).parents[2]


def blocks(page: str, language: str) -> list[str]:
    """The code of a page in one language, block by block."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


async def played(script: str, folder: Path) -> tuple[int | None, str]:
    """The exit status of a script and what it said; whatever it started and left is ended with it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    log = folder / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", script),
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(120):
                status = await process.wait()
        except TimeoutError:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return status, log.read_text()


async def test_the_quickstart_runs_as_it_stands(tmp_path: Path) -> None:
    build, *rest = blocks("docs/quickstart.md", "sh")
    assert build.startswith("make build\n")
    script = "".join(rest)
    for port in ("8001", "8002", "8080"):
        assert port in script
        script = script.replace(port, str(free_port()))
    status, output = await played(script, tmp_path)
    assert status == 0, output
    first, second = re.findall(r"^x-warmroute-overlap-tokens: (\d+)", output, re.MULTILINE | re.IGNORECASE)
    assert int(first) == 0
    assert int(second) > 10_000
    for said in ("CompletionUsage(", '"candidates"', "warmroute_decisions_total", '"url"'):
        assert said in output, output
    assert "Traceback" not in output


async def test_the_programs_of_the_readme_run_as_they_stand(tmp_path: Path) -> None:
    embedded, tokenizer, client = blocks("README.md", "python")
    router = warmroute.Router(block_size=16)
    router.add_worker("w1", url="http://10.0.0.1:8000")
    async with warmroute.rpc.serve(router, options=GrpcOptions()) as server:
        for program in (
            embedded,
            "import warmroute\n" + tokenizer.replace('"Qwen/Qwen3-8B"', repr(str(TOKENIZER))),
            client.replace("50051", str(server.port)),
        ):
            (tmp_path / "program.py").write_text(program)
            status, output = await played("python program.py", tmp_path)
            assert status == 0, output
    assert router.stats()["finished"] == 1
