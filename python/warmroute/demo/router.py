"""The router of a play: `warmroute serve` as a process of its own, as a user runs it."""

import asyncio
import contextlib
import json
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence

from warmroute.errors import WarmrouteError

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0
LISTENING = "listening"


class RouterFailed(WarmrouteError):
    """The router did not start; the message has the end of its log."""


@contextlib.asynccontextmanager
async def router(arguments: Sequence[str]) -> AsyncIterator[int]:
    """Run a router and give its port; it is gone when the block ends, whatever ends it."""
    command = (sys.executable, "-m", "warmroute.cli", "serve", "--port", "0", "--log-format", "json")
    process = await asyncio.create_subprocess_exec(
        *command, *arguments, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    log: deque[str] = deque(maxlen=20)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    reader = asyncio.create_task(_read(process, log, port))
    try:
        yield await asyncio.wait_for(port, START_TIMEOUT_S)
    except TimeoutError:
        raise RouterFailed("the router did not start in time:\n" + "\n".join(log)) from None
    finally:
        await _stop(process)
        await reader


async def _read(process: asyncio.subprocess.Process, log: deque[str], port: asyncio.Future[int]) -> None:
    """Read the log all the time, so that the router never waits for a full pipe."""
    assert process.stderr is not None  # noqa: S101
    async for line in process.stderr:
        text = line.decode("utf-8", "replace").rstrip()
        log.append(text)
        if not port.done() and f'"{LISTENING}"' in text:
            with contextlib.suppress(ValueError, KeyError):
                port.set_result(int(json.loads(text)["port"]))
    if not port.done():
        port.set_exception(RouterFailed("the router ended at once:\n" + "\n".join(log)))


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
