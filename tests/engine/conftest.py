"""Two real vLLM workers for the tests of this folder; where there is no engine that is said loudly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import engine
from tests.support.engine import Engine
from tests.support.process import free_port

_FINDINGS: list[str] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _FINDINGS:
        terminalreporter.section("measured on real engines")
        for finding in _FINDINGS:
            terminalreporter.line(finding)
    if engine.kit() is None:
        terminalreporter.section("REAL ENGINES WERE NOT TESTED", sep="!", yellow=True)
        terminalreporter.line(engine.absence())


@pytest.fixture
def say() -> Callable[[str], None]:
    """Puts a line into the summary at the end of the run, also when the test passes."""
    return _FINDINGS.append


@pytest.fixture(scope="session")
def kit() -> Path:
    folder = engine.kit()
    if folder is None:
        pytest.skip(engine.absence())
    return folder


@pytest.fixture(scope="session")
def engine_venv(kit: Path) -> Path:
    return engine.venv(kit)


@pytest.fixture(scope="session")
def model(kit: Path, engine_venv: Path) -> Path:
    return engine.slow_model(kit, engine_venv)


@pytest.fixture(scope="session")
def engines(kit: Path, engine_venv: Path, model: Path) -> Iterator[list[Engine]]:
    """Two workers of 512 blocks of 32 tokens each: one alone cannot hold every prefix of the tests."""
    with contextlib.ExitStack() as stack:
        started = [Engine(kit, engine_venv, model, free_port()) for _ in range(2)]
        for one in started:
            stack.callback(one.stop)
            one.start()
        for one in started:
            one.wait()
        yield started
