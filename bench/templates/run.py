"""Our prompts beside vLLM's, for real chat templates and many shapes of requests.

ENGINE_VENV=DIR python -m bench.templates.run

`ENGINE_VENV` is a virtual environment with vLLM. It makes the prompts with its own code and Hugging Face's
Jinja; the example `templates` of `rust/prompt` makes them again. Writes `docs/templates.md` and
`results/templates.json`, and fails where a single one differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import _report
from bench.templates import fetch

PAGE = _report.ROOT / "docs" / "templates.md"
IDENTICAL, WORKER, DIFFERENT = "identical", "worker_refuses", "different"

HEAD = """# Templates

Written by `make bench-templates` (`bench/templates/`), which needs a virtual environment with vLLM in
`ENGINE_VENV`.

Each chat template is given {shapes} request bodies of `/v1/chat/completions`, `/v1/completions`,
`/v1/responses` and Anthropic's `/v1/messages` (`tests/support/*_bodies.py`). vLLM {vllm} with
transformers {transformers} makes a prompt of each with its own code; warmroute makes it again, in one
piece and from what it has seen. A cell is

* *identical*: the same text, and the same ids by both ways;
* *refused*: warmroute does not claim to know the prompt, and says why (`warmroute_prompt::Refused`). The
  request is routed one rung further down;
* *the worker's*: vLLM answers 400, or the template raises an error;
* *different*: there is none.

Templates are those in {package} and those of the tokenizers that `make bench-exact` fetches; only their
names are here. Models whose prompts vLLM does not render with a template (gpt-oss, DeepSeek V3.2 and V4,
Kimi K3, and Mistral's own format) are in the table as templates all the same: a worker's answers are
compared with ours when it joins.

## What is refused

{reasons}

* `strftime_now` is the date by the router's clock and time zone (`TZ`, `/etc/localtime`), which must be
  the workers'. What changes within a day (`%H`, `%c`) is refused as `clock`, and so is everything that
  prints the date for two seconds on both sides of midnight.
* Images, sounds and films: the prompt is exact up to the first (rung `media`). From there on what counts
  is each one's `uuid`, or else a hash of its URL or data, and the text between them. `/v1/messages` and
  `/v1/responses` with media are text.
* A worker's `--default-chat-template-kwargs`, `--exclude-tools-when-tool-choice-none` and
  `--trust-request-chat-template` are not known here.

## Templates

| template | identical | refused | the worker's | different |
| --- | ---: | ---: | ---: | ---: |
"""


def main() -> int:
    """Make both, compare them, write the page and the result."""
    engine = os.environ.get("ENGINE_VENV")
    if not engine:
        sys.stderr.write("bench-templates: set ENGINE_VENV to a virtual environment with vLLM\n")
        return 2
    templates, golden = fetch.gather(), fetch.CACHE / "golden"
    python = str(Path(engine) / "bin" / "python")
    command = [
        python,
        "-m",
        "tests.support.golden_prompts",
        "--templates",
        str(templates),
        "--out",
        str(golden),
    ]
    subprocess.run(command, check=True, cwd=_report.ROOT)
    cargo = ["cargo", "run", "--quiet", "--locked", "-p", "warmroute-prompt", "--example", "templates", "--"]
    compare = [*cargo, str(golden / "tokenizer"), str(templates), str(golden)]
    output = subprocess.run(compare, check=True, cwd=_report.ROOT, stdout=subprocess.PIPE, text=True).stdout
    rows = [json.loads(line) for line in output.splitlines()]
    versions = {name: version(python, name) for name in ("vllm", "transformers")}
    PAGE.write_text(page(rows, versions))
    counts = Counter(cell for row in rows for cell in row["cells"].values())
    targets = [_report.target("prompts that differ from vLLM's", counts[DIFFERENT], 0)]
    return _report.finish(
        "templates",
        seed=0,
        versions=versions,
        parameters={"templates": len(rows), "shapes": len(rows[0]["cells"]), "package": fetch.PACKAGE},
        results=[{"outcome": outcome, "cells": cells} for outcome, cells in counts.most_common()],
        targets=targets,
    )


def version(python: str, package: str) -> str:
    """The version of a package in the engine's environment."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def page(rows: Sequence[dict[str, Any]], versions: dict[str, str]) -> str:
    """The table, as Markdown."""
    shapes: dict[str, set[str]] = {}
    lines, total = [], Counter[str]()
    for row in rows:
        counts = Counter(row["cells"].values())
        total += counts
        lines.append(line(row["template"], counts))
        for shape, outcome in row["cells"].items():
            if outcome not in (IDENTICAL, WORKER, DIFFERENT):
                shapes.setdefault(outcome, set()).add(shape)
    reasons = [
        f"* `{reason}`, {total[reason]} cells: {', '.join(sorted(names)[:6])}{' …' if len(names) > 6 else ''}"
        for reason, names in sorted(shapes.items(), key=lambda item: -total[item[0]])
    ]
    head = HEAD.format(
        shapes=len(rows[0]["cells"]), package=fetch.PACKAGE, reasons="\n".join(reasons), **versions
    )
    return head + "\n".join([*lines, line("**all**", total)]) + "\n"


def line(name: str, counts: Counter[str]) -> str:
    """One row of the table."""
    refused = sum(counts.values()) - counts[IDENTICAL] - counts[WORKER] - counts[DIFFERENT]
    return f"| {name} | {counts[IDENTICAL]} | {refused} | {counts[WORKER]} | {counts[DIFFERENT]} |"


if __name__ == "__main__":
    sys.exit(main())
