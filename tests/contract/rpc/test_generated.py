"""The generated Python code is what protoc makes of `proto/`; `rust/proto` has a test of the Rust code."""

from __future__ import annotations

from pathlib import Path

import grpc_tools
import pytest
from grpc_tools import protoc

ROOT = Path(__file__).parents[3]
INCLUDE = Path(grpc_tools.__file__).parent / "_proto"


@pytest.mark.parametrize("name", ["router", "fleet"])
def test_the_code_is_current(tmp_path: Path, name: str) -> None:
    proto = ROOT / "proto" / "warmroute" / "v1" / f"{name}.proto"
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    assert protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"-I{INCLUDE}", *outputs, str(proto)]) == 0
    for made in (tmp_path / "warmroute" / "v1").iterdir():
        kept = ROOT / "python" / "warmroute" / "v1" / made.name
        assert kept.read_text() == made.read_text(), "run `make proto`"
