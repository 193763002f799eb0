"""CPU from a chat body to its tokens and block hashes.

python -m bench.tokens.run [--rounds N]
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import _cargo, _report

PACKAGE = _report.ROOT / "python" / "warmroute" / "data" / "tokenizer"
UNSEEN_US = 2000
SEEN_US = 60


def main() -> int:
    """Measures each tokenizer in a process of its own and writes `results/tokens.json`."""
    parser = _report.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    binary = _cargo.build("tokens")
    rows = [
        {"tokenizer": name, **row}
        for name, folder in _tokenizers()
        for row in _cargo.rows([binary, str(folder), str(rounds)])
    ]
    chats = [row for row in rows if "chat" in row]
    growths = [row for row in rows if "turns" in row]
    targets = list(_targets(chats, growths))
    print(_report.table(chats))
    print(_report.table(growths))
    return _report.finish(
        "tokens",
        seed=7,
        versions={"warmroute": _report.version("warmroute")},
        parameters={"rounds": rounds, "text_bytes": 120_000, "turn_bytes": 2_000, "block_size": 16},
        results=rows,
        targets=targets,
    )


def _targets(chats: list[dict[str, Any]], growths: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in chats:
        claim = f"{row['tokenizer']}, {row['chat']}"
        yield _report.target(f"{claim}: unseen, us", row["unseen_us"], UNSEEN_US)
        yield _report.target(f"{claim}: seen, us", row["seen_us"], SEEN_US)
        yield _report.target(f"{claim}: seen with a new turn, us", row["new_turn_us"], SEEN_US)
    for row in growths:
        ratio = row["held_bytes"] / row["held_bytes_at_half"]
        yield _report.target(f"{row['tokenizer']}: held after 60 turns over after 30", ratio, 2.2)


def _tokenizers() -> Iterator[tuple[str, Path]]:
    """The package's, and those in `TOKENIZERS` that have a chat template."""
    yield "package", PACKAGE
    if more := os.environ.get("TOKENIZERS"):
        for config in sorted(Path(more).glob("*/tokenizer_config.json")):
            if "chat_template" in json.loads(config.read_text()):
                yield config.parent.name, config.parent


if __name__ == "__main__":
    raise SystemExit(main())
