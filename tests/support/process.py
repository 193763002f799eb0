"""Servers as child processes: started on a free port, waited for, and always ended by their own id."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import socket
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.http import Reply, request
from tests.support.waiting import until

START_SECONDS = 20.0
END_SECONDS = 15.0


def free_port() -> int:
    """A port of the loopback interface that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def warmroute_command() -> list[str]:
    """How to run `warmroute`: `ROUTER_COMMAND` where it is set, else the program beside this Python."""
    given = os.environ.get("ROUTER_COMMAND")
    return shlex.split(given) if given else [str(Path(sys.executable).parent / "warmroute")]


class Router:
    """`warmroute serve` as a child process in front of some workers."""

    def __init__(self, log: Path, workers: list[str], *flags: str, ready: bool = True) -> None:
        self.port = free_port()
        self.log = log
        self._command = [*warmroute_command(), "serve", "--port", str(self.port), *flags]
        for url in workers:
            self._command += ["--worker", url]
        self._ready = ready
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where the router listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The running process."""
        assert self._process is not None
        return self._process

    async def __aenter__(self) -> Router:
        with self.log.open("wb") as output:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdout=output, stderr=output)
        try:
            await self.answers("/readyz" if self._ready else "/healthz", 200)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._end()
        if kind is not None:  # pytest shows it with the failure
            sys.stderr.write(f"--- {' '.join(self._command)}\n{self.log_text()[-8000:]}\n")

    async def get(self, path: str) -> Reply:
        """GETs a path of the router."""
        return await request(self.port, path)

    async def answers(self, path: str, status: int, seconds: float = START_SECONDS) -> Reply:
        """Waits until a path is answered with `status`."""
        reply: Reply | None = None

        async def holds() -> bool:
            nonlocal reply
            if self.process.returncode is not None:
                raise AssertionError(f"exited with {self.process.returncode}:\n{self.log_text()[-4000:]}")
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reply = await self.get(path)
            return reply is not None and reply.status == status

        await until(holds, f"{path} is answered with {status}", seconds)
        assert reply is not None
        return reply

    async def workers(self) -> list[dict[str, Any]]:
        """The fleet as the router tells it."""
        listed: list[dict[str, Any]] = (await self.get("/warmroute/v1/workers")).json()["workers"]
        return listed

    async def worker_name(self, url: str) -> str:
        """The router's name for the worker at `url`."""
        (name,) = [worker["name"] for worker in await self.workers() if worker["url"] == url]
        return str(name)

    async def active_requests(self) -> int:
        """Requests that the router holds to be running, over the whole fleet."""
        return sum(worker["load"]["requests"] for worker in await self.workers())

    async def sees_ready(self, count: int, seconds: float = START_SECONDS) -> None:
        """Waits until the router holds exactly `count` workers to be ready."""

        async def holds() -> bool:
            ready = [worker for worker in await self.workers() if worker["state"] == "ready"]
            return len(ready) == count

        await until(holds, f"{count} workers are ready", seconds)

    def log_text(self) -> str:
        """What the router has written."""
        return self.log.read_text(errors="replace")

    def terminate(self) -> None:
        """Asks the router to drain and end."""
        self.process.send_signal(signal.SIGTERM)

    async def wait(self, seconds: float = END_SECONDS) -> int:
        """Waits for the end of the process and gives its exit status."""
        async with asyncio.timeout(seconds):
            return await self.process.wait()

    async def _end(self) -> None:
        if self.process.returncode is not None:
            return
        self.terminate()
        try:
            await self.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
