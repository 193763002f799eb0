"""The proto has no fault that buf's standard rules find, and every element has a comment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.conftest import ROOT, go

BUF = "github.com/bufbuild/buf/cmd/buf@v1.75.0"


# Building buf takes minutes, once.
@pytest.mark.timeout(1_200)
def test_buf_lint(tools: Path) -> None:
    command = shutil.which("buf") or str(tools / "buf")
    if not Path(command).exists():
        go("install", BUF, cwd=tools, GOBIN=str(tools))
    done = subprocess.run([command, "lint"], cwd=ROOT / "proto", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
