from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from warmroute.errors import ConfigError
from warmroute.fleet.discovery import Listing
from warmroute.fleet.discovery import file as file_module
from warmroute.fleet.discovery.file import FileSource, read


class Published:
    def __init__(self) -> None:
        self.sets: list[list[str]] = []

    def __call__(self, listings: Sequence[Listing]) -> None:
        self.sets.append([listing.name for listing in listings])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "workers.toml"


@pytest.fixture
def published() -> Published:
    return Published()


@pytest.fixture
async def source(
    path: Path, published: Published, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FileSource]:
    monkeypatch.setattr(file_module, "SETTLE_S", 0.005)
    source = FileSource(path, 0.005)
    task = asyncio.create_task(source.run(published))
    yield source
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def entries(*names: str) -> str:
    return "".join(f'[[worker]]\nname = "{name}"\nurl = "http://{name}:8000"\n' for name in names)


def replace(path: Path, text: str) -> None:
    """As editors and deployment tools do it."""
    other = path.with_name("other")
    other.write_text(text)
    other.rename(path)


async def test_a_file_that_comes_later_changes_and_goes(
    source: FileSource, path: Path, published: Published
) -> None:
    await until(lambda: source.standing.failures > 0)
    replace(path, entries("a"))
    await until(lambda: published.sets == [["a"]])
    path.write_text(entries("a", "b"))
    await until(lambda: published.sets[1:] == [["a", "b"]])
    failures = source.standing.failures
    path.unlink()
    await until(lambda: source.standing.failures > failures)
    assert source.standing.document()["failing"]
    assert source.standing.workers == 2
    replace(path, "worker = []")
    await until(lambda: published.sets[2:] == [[]])
    assert not source.standing.document()["failing"]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("", "worker = []"),
        ("[[worker]]\nurl = ", "TOML"),
        ('[[worker]]\nurl = "ftp://h"', "http://HOST"),
        ('[[worker]]\nurl = "http://h:1"\ncolour = 3', "colour"),
        ('[[worker]]\nurl = "http://u:secret@h:1"', "hidden"),
        (entries("a", "a"), "no other worker"),
        ("[router]\nblock_size = 16", "nothing else"),
        ("worker = 3", "tables"),
        ("\x00", "TOML"),
    ],
)
async def test_a_broken_file_keeps_the_last_good_workers_and_is_said_once(
    source: FileSource,
    path: Path,
    published: Published,
    broken: str,
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    replace(path, entries("a"))
    await until(lambda: published.sets == [["a"]])
    caplog.clear()
    before = source.standing.failures
    replace(path, broken)
    await until(lambda: source.standing.failures > before + 2)
    assert published.sets == [["a"]]
    assert said in source.standing.document()["error"]
    assert "secret" not in source.standing.document()["error"]
    assert sum("cannot be used" in record.message for record in caplog.records) == 1
    # The same file again, mended: nothing has changed, and it is good again.
    replace(path, entries("a"))
    await until(lambda: not source.standing.document()["failing"])
    assert published.sets == [["a"]]


async def test_a_file_that_is_still_written_is_not_believed(
    path: Path, published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FileSource(path, 0.001)
    monkeypatch.setattr(file_module, "SETTLE_S", 0.0)
    parts = [entries("a"), entries("a", "b"), entries("a", "b", "c"), entries("a", "b", "c")]

    def read_part() -> bytes:
        return (parts.pop(0) if len(parts) > 1 else parts[0]).encode()

    monkeypatch.setattr(source, "_read", read_part)
    task = asyncio.create_task(source.run(published))
    await until(lambda: bool(published.sets))
    task.cancel()
    assert published.sets == [["a", "b", "c"]]


def test_json_has_the_same_shape() -> None:
    document = {"worker": [{"url": "http://h:1", "kv_blocks": 7, "models": ["m"]}]}
    (worker,) = read(json.dumps(document).encode(), Path("w.json"))
    assert (worker.name, worker.kv_blocks, worker.models) == ("h:1", 7, ("m",))
    with pytest.raises(ConfigError, match="JSON"):
        read(b"[" * 100_000, Path("w.json"))


async def test_a_file_that_is_too_long_is_not_read_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_module, "LIMIT_BYTES", 10)
    path.write_text("x" * 100)
    source = FileSource(path, 1)
    with pytest.raises(ConfigError, match="at most 10 bytes"):
        source._read()


async def test_a_pipe_keeps_nobody_waiting(source: FileSource, path: Path, published: Published) -> None:
    os.mkfifo(path)
    # It may have been looked for before it was there.
    await until(lambda: "no pipe" in source.standing.document()["error"])
    replace(path, entries("a"))
    await until(lambda: published.sets == [["a"]])
