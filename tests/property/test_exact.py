"""Token ids against Hugging Face's tokenizers: a bounded part of `make bench-exact`."""

from pathlib import Path

import pytest

from bench.exact import built, fetch, run

STRINGS = 1_000
# The small ones: the bench has all of them.
REAL = ["deepseek-v4", "qwen3.6", "mistral-tekken", "mistral-v3", "claude-2", "llama-3.1"]
ENCODED_BY_THE_REFERENCE = {
    "nfkc",
    "metaspace-first",
    "metaspace-always",
    "metaspace-never",
    "metaspace-split",
}


@pytest.mark.parametrize("name", built.definitions())
def test_made_tokenizers(name: str, tmp_path: Path) -> None:
    folder = next(folder for folder in built.write(tmp_path) if folder.name == name)
    row = run.compare(folder, STRINGS, seed=11)
    assert (row["differ"], row["differ_cached"]) == (0, 0)
    assert row["encoder"] == ("tokenizers" if name in ENCODED_BY_THE_REFERENCE else "fastokens")
    assert row["cache"] == "refused" or (row["known_share"] > 0 and row["evicted"] > 0)


@pytest.mark.parametrize("name", REAL)
def test_real_tokenizers(name: str) -> None:
    missing = fetch.fetch([name])
    if missing:
        pytest.skip(f"not compared with a real tokenizer: {missing[name]}")
    row = run.compare(fetch.CACHE / name, STRINGS, seed=11)
    assert (row["differ"], row["differ_cached"]) == (0, 0)
    assert row["encoder"] == ("tokenizers" if name == "claude-2" else "fastokens")


def test_a_difference_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ids", lambda tokens: [*memoryview(tokens).cast("I")][1:])
    row = run.compare(next(built.write(tmp_path)), 50, seed=11)
    assert row["differ"] > 0
    assert row["differ_cached"] > 0
