"""Workers from a file that is watched: the same `[[worker]]` tables as the configuration, or JSON.

The file is read again and again and compared: that sees an atomic replace, an editor's save, a changed link
of a Kubernetes ConfigMap and a network file system alike.
"""

import asyncio
import json
import os
import stat
import tomllib
from collections.abc import Sequence
from pathlib import Path

from warmroute.config import WorkerOptions
from warmroute.config.worker import WORKER_TABLE, names_differ, workers_from
from warmroute.errors import ConfigError
from warmroute.fleet.discovery.listing import FILE, Listing, Publish
from warmroute.fleet.discovery.standing import Standing

# A thousand workers take some 100 kB.
LIMIT_BYTES = 8 << 20
# A file that has changed is believed when it reads the same after so long: it may be half written.
SETTLE_S = 0.1


class FileSource:
    """The workers that a file lists."""

    name = FILE

    def __init__(self, path: Path, interval_s: float) -> None:
        """Take the file (TOML, or JSON where it ends in `.json`), and how often it is read."""
        self._path = path
        self._interval_s = interval_s
        self.standing = Standing(FILE)

    async def run(self, publish: Publish) -> None:
        """Publish the file's workers whenever they change."""
        believed: bytes | None = None
        while True:
            try:
                data = await asyncio.to_thread(self._read)
                if data != believed:
                    await asyncio.sleep(SETTLE_S)
                    if await asyncio.to_thread(self._read) != data:
                        continue
                    workers = read(data, self._path)
                    publish([Listing(worker) for worker in workers])
                    believed = data
                    self.standing.good(len(workers))
                else:
                    self.standing.good(self.standing.workers)
            except ConfigError as error:
                self.standing.bad(error)
            await asyncio.sleep(self._interval_s)

    def _read(self) -> bytes:
        try:
            # A pipe would keep the one who opens it waiting, for ever where nobody writes.
            with open(self._path, "rb", opener=_open_at_once) as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                data = file.read(LIMIT_BYTES + 1) if is_file else b""
        except OSError as error:
            raise ConfigError(
                "fleet.workers_file", str(self._path), f"a file that can be read ({error.strerror})"
            ) from None
        if not is_file:
            raise ConfigError("fleet.workers_file", str(self._path), "a file, and no pipe or device")
        if len(data) > LIMIT_BYTES:
            raise ConfigError("fleet.workers_file", str(self._path), f"at most {LIMIT_BYTES} bytes")
        return data


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def read(data: bytes, path: Path) -> Sequence[WorkerOptions]:
    """The workers of a file, or `ConfigError`: one without `worker` is not a fleet without workers."""
    source = str(path)
    try:
        text = data.decode("utf-8")
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ConfigError("fleet.workers_file", source, f"a {kind} file ({error})") from None
    if not isinstance(document, dict) or list(document) != [WORKER_TABLE]:
        raise ConfigError(
            "fleet.workers_file",
            source,
            "[[worker]] tables and nothing else; worker = [] where there is none",
        )
    workers = workers_from(document[WORKER_TABLE], source)
    names_differ(workers, source)
    return workers
