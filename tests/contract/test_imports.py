"""Which code may depend on which: read off the sources, so that no dependency can sneak upward."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "warmroute"
COMPILED = "_core"

# From the top down; modules of one row do not know each other.
PYTHON_ROWS = [
    ["cli"],
    ["demo"],
    ["server", "sim"],
    ["rpc", "fleet", "client"],
    ["tasks"],
    ["config", "metrics", "logs"],
    ["native"],
    ["errors", "v1"],
]
CRATE_ROWS = [["python"], ["proxy", "rpc", "sim"], ["prompt"], ["core", "proto"]]
CORE_ROWS = [
    ["router"],
    ["select", "admit"],
    ["prefix", "load", "fleet"],
    ["block", "event"],
    ["config"],
    ["options", "calibration"],
    ["ids", "time", "error"],
]


def rank(rows: list[list[str]], name: str) -> int | None:
    return next((row for row, names in enumerate(rows) if name in names), None)


def breaks(rows: list[list[str]], source: str, target: str) -> bool:
    """Whether `source` may not use `target`: it lies higher, or beside it in the same row."""
    high, low = rank(rows, source), rank(rows, target)
    return source != target and high is not None and low is not None and low <= high


def python_imports() -> Iterator[tuple[str, str]]:
    """Pairs of (top-level module of warmroute, top-level module of warmroute that it imports)."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("").parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                if name.startswith("warmroute."):
                    yield module, name.split(".")[1]


def core_uses() -> Iterator[tuple[str, str]]:
    source = ROOT / "rust" / "core" / "src"
    for path in sorted(source.rglob("*.rs")):
        module = path.relative_to(source).with_suffix("").parts[0]
        for used in re.findall(r"\bcrate::(?:\{([^}]*)\}|(\w+))", path.read_text()):
            names = re.findall(r"(?:^|,)\s*(\w+)", used[0]) if used[0] else [used[1]]
            yield from ((module, name) for name in names)


def test_python_imports_point_downward() -> None:
    found = set(python_imports())
    assert found
    assert [pair for pair in found if breaks(PYTHON_ROWS, *pair)] == []


def test_every_python_module_has_a_place() -> None:
    modules = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    known = {name for row in PYTHON_ROWS for name in row} | {"__init__", "__main__"}
    assert modules - known == set()


def test_one_module_imports_the_compiled_part() -> None:
    assert {source for source, target in python_imports() if target == COMPILED} <= {"native"}


def test_crates_depend_downward() -> None:
    for manifest in sorted((ROOT / "rust").glob("*/Cargo.toml")):
        crate = manifest.parent.name
        for name in tomllib.loads(manifest.read_text()).get("dependencies", {}):
            target = name.removeprefix("warmroute-")
            assert not (target != name and breaks(CRATE_ROWS, crate, target)), f"{crate} depends on {name}"


def test_modules_of_the_core_use_only_lower_ones() -> None:
    found = set(core_uses())
    assert [pair for pair in found if breaks(CORE_ROWS, *pair)] == []


@pytest.mark.parametrize(
    ("source", "target"), [("fleet", "server"), ("config", "metrics"), ("errors", "native")]
)
def test_the_rule_refuses_an_upward_or_sideways_import(source: str, target: str) -> None:
    assert breaks(PYTHON_ROWS, source, target)
