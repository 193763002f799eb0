"""Our token ids beside those of Hugging Face's tokenizers, for real tokenizers and made ones.

python -m bench.exact.run [--strings N] [--only NAME ...] [--no-real]

Each text is encoded by `tokenizers`, by our encoder, and by our encoder behind a cache of prompts so small
that it evicts; ours from eight threads, with and without the tokens around a whole prompt.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import tokenizers

import warmroute
from bench import _report
from bench.exact import built, fetch
from bench.exact.texts import Texts
from warmroute.errors import ConfigError

THREADS = 8
BATCH = 4_000
# Few of a batch's long pieces fit in it.
CACHE_BYTES = 256 * 1024


def main() -> int:
    """Compare every tokenizer and write `results/exact.json`; fail where one text differs."""
    parser = _report.parser(__doc__)
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--no-real", action="store_true", help="only the tokenizers that are made here")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for folder in folders(Path(scratch), real=not arguments.no_real):
            if not arguments.only or folder.name in arguments.only:
                rows.append(compare(folder, arguments.strings, arguments.seed))
                print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    wrong = sum(row["differ"] + row["differ_cached"] for row in rows)
    targets = [_report.target("texts that differ from Hugging Face's", wrong, 0)]
    if arguments.only:
        return _report.verdict(targets)
    return _report.finish(
        "exact",
        seed=arguments.seed,
        versions={name: _report.version(name) for name in ("warmroute", "tokenizers")},
        parameters={"strings": arguments.strings, "threads": THREADS, "cache_bytes": CACHE_BYTES},
        results=rows,
        targets=targets,
    )


def folders(scratch: Path, *, real: bool) -> Iterator[Path]:
    """Yield those that can be had, and say which cannot."""
    if real:
        missing = fetch.fetch()
        for name in fetch.TOKENIZERS:
            if name in missing:
                print(f"{name}: left out, {missing[name]}", file=sys.stderr)
            else:
                yield fetch.CACHE / name
    yield from built.write(scratch)


def compare(folder: Path, strings: int, seed: int) -> dict[str, Any]:
    """Encode random texts every way; the row says how many differ."""
    row: dict[str, Any] = {"tokenizer": folder.name, "strings": strings, "mebibytes": 0.0}
    row |= {"encoder": "", "cache": "", "known_share": None, "evicted": None, "differ": 0, "differ_cached": 0}
    began = time.monotonic()
    reference = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    reference.no_truncation()
    reference.no_padding()
    try:
        ours = warmroute.Tokenizer(folder, prompt_cache_bytes=CACHE_BYTES)
    except ConfigError as error:
        return row | {"strings": 0, "encoder": f"refused: {error}"}
    row["encoder"] = "tokenizers" if ours.fallback_reason else "fastokens"
    tokens = [token.content for _, token in sorted(reference.get_added_tokens_decoder().items())]
    texts = Texts(tokens, seed).take(strings)
    order = random.Random(seed)
    size = 0
    with ThreadPoolExecutor(THREADS) as pool:
        while batch := list(islice(texts, BATCH)):
            size += sum(len(text.encode()) for text in batch)
            for special in (False, True):
                plain, cached = differing(reference, ours, pool, order.sample(batch, len(batch)), special)
                row["differ"] += plain
                row["differ_cached"] += cached
    stats = ours.cache_stats()
    row["mebibytes"] = round(size / 2**20, 1)
    row["cache"] = "refused" if stats is None else "used"
    if stats is not None:
        total = stats["known_text_bytes"] + stats["encoded_text_bytes"]
        row |= {
            "known_share": round(stats["known_text_bytes"] / max(total, 1), 3),
            "evicted": stats["evicted"],
        }
    return row | {"seconds": round(time.monotonic() - began, 1)}


def ids(tokens: bytes) -> list[int]:
    """Unpack tokens."""
    return memoryview(tokens).cast("I").tolist()


def differing(
    reference: tokenizers.Tokenizer,
    ours: warmroute.Tokenizer,
    pool: ThreadPoolExecutor,
    texts: Sequence[str],
    special: bool,
) -> tuple[int, int]:
    """Count the texts that differ: encoded, and by way of the cache."""

    def encode(text: str) -> list[int]:
        return ids(ours.encode(text, special))

    def cached(text: str) -> list[int]:
        body = {"prompt": text, "add_special_tokens": special}
        return ids(ours.tokens_for(body, "completions"))

    expected = [encoding.ids for encoding in reference.encode_batch_fast(texts, add_special_tokens=special)]
    counts = []
    for way in (encode, cached):
        wrong = [i for i, given in enumerate(pool.map(way, texts)) if given != expected[i]]
        for i in islice(wrong, 3):
            print(f"{way.__name__} differs (special={special}): {texts[i]!r}", file=sys.stderr)
        counts.append(len(wrong))
    return counts[0], counts[1]


if __name__ == "__main__":
    sys.exit(main())
