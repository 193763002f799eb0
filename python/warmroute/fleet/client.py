"""Asks a worker how it is and what it serves, within a time and a size."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

import aiohttp

from warmroute.config import WorkerOptions
from warmroute.errors import WorkerError, WorkerReply, WorkerTimeout, WorkerUnreachable
from warmroute.fleet.events import Source
from warmroute.fleet.facts import Facts, Tokens, read_metrics, read_models, read_tokens, read_version
from warmroute.fleet.sources import read_sources
from warmroute.logs import get

# vLLM's page is about 100 kB a model; a reply past this is not one.
REPLY_LIMIT_BYTES = 8 << 20

log = get("fleet")


class WorkerClient:
    """The control plane's connections to the workers; requests of clients do not come this way."""

    def __init__(self, timeout_s: float, key: str | None = None) -> None:
        """Take the seconds that one answer may take, and the key that workers ask for, where they do."""
        keyed = {"Authorization": f"Bearer {key}"} if key is not None else {}
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            # Whoever asks bounds how many ask at once. Waiting here for others would count as a slow answer.
            connector=aiohttp.TCPConnector(limit=0),
            headers={"User-Agent": "warmroute", **keyed},
        )

    async def __aenter__(self) -> "WorkerClient":
        """Open nothing: connections are made when they are needed."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._session.close()

    async def health(self, worker: WorkerOptions) -> None:
        """Raise `WorkerError` unless the worker says that it is healthy."""
        await self._get(worker, "/health")

    async def facts(self, worker: WorkerOptions) -> Facts:
        """Learn what the worker serves; raise `WorkerError` where its list of models cannot be had.

        A worker without readable metrics is used all the same: its capacity is then not known.
        """
        try:
            models = read_models(await self._get(worker, "/v1/models"))
        except ValueError as error:
            raise WorkerReply(str(error)) from None
        try:
            page = await self._get(worker, "/metrics")
        except WorkerError as error:
            log.once(worker.name, "metrics cannot be read", worker=worker.name, error=error)
            page = ""
        return replace(read_metrics(page, models, worker.dp_rank), version=await self.version(worker))

    async def metrics(self, worker: WorkerOptions) -> bytes:
        """Read the worker's `/metrics` as it is."""
        return await self._read("GET", worker, "/metrics", None)

    async def version(self, worker: WorkerOptions) -> str:
        """Ask which version of the engine runs; empty where the worker does not say."""
        try:
            return read_version(await self._get(worker, "/version"))
        except (WorkerReply, ValueError):
            return ""

    async def trial(self, worker: WorkerOptions, model: str) -> None:
        """Have one token computed; raise `WorkerError` where that cannot be had."""
        body = {"model": model, "prompt": "a", "max_tokens": 1}
        await self._ask("POST", worker, "/v1/completions", json.dumps(body).encode())

    async def event_sources(self, worker: WorkerOptions) -> dict[int, Source]:
        """Ask where the worker's KV events are; a worker that knows no such path has none."""
        try:
            return read_sources(await self._get(worker, "/kv_event_sources"), worker.url)
        except WorkerReply as error:
            if error.status in (404, 405):
                return {}
            raise
        except ValueError as error:
            raise WorkerReply(str(error)) from None

    async def tokenize(self, worker: WorkerOptions, body: Mapping[str, Any]) -> Tokens:
        """Ask for the worker's own tokens of a prompt; raise `WorkerError` where they cannot be had."""
        data = json.dumps(body, ensure_ascii=False).encode()
        try:
            return read_tokens(await self._ask("POST", worker, "/tokenize", data))
        except ValueError as error:
            raise WorkerReply(str(error)) from None

    async def _get(self, worker: WorkerOptions, path: str) -> str:
        return await self._ask("GET", worker, path, None)

    async def _ask(self, method: str, worker: WorkerOptions, path: str, data: bytes | None) -> str:
        return (await self._read(method, worker, path, data)).decode("utf-8", "replace")

    async def _read(self, method: str, worker: WorkerOptions, path: str, data: bytes | None) -> bytes:
        headers = {"Content-Type": "application/json"} if data is not None else {}
        try:
            async with self._session.request(
                method, worker.url + path, data=data, headers=headers, allow_redirects=False
            ) as response:
                if response.status != 200:
                    hint = " (--worker-key-file FILE)" if response.status == 401 else ""
                    raise WorkerReply(f"{path} answers {response.status}{hint}", response.status)
                return await _bytes(response, path)
        except TimeoutError:
            raise WorkerTimeout(f"{path} does not answer in time") from None
        except (aiohttp.ClientConnectionError, OSError) as error:
            raise WorkerUnreachable(f"{path}: {str(error) or type(error).__name__}") from None
        except aiohttp.ClientError as error:
            raise WorkerReply(f"{path}: {type(error).__name__}") from None


async def _bytes(response: aiohttp.ClientResponse, path: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_chunked(1 << 16):
        size += len(part)
        if size > REPLY_LIMIT_BYTES:
            raise WorkerReply(f"{path} is longer than {REPLY_LIMIT_BYTES} bytes")
        parts.append(part)
        # A fast sender must not keep the loop to itself.
        await asyncio.sleep(0)
    return b"".join(parts)
