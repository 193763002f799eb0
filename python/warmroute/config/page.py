"""docs/configuration.md, written from the tables so that it cannot differ from them."""

from collections.abc import Iterable

from warmroute.config.front import WorkerOptions
from warmroute.config.option import Option, options_of, plain
from warmroute.config.schema import Section
from warmroute.config.show import literal
from warmroute.config.tables import serve_schema, sim_worker_schema

HEAD = """# Configuration

This page is generated from the option tables (`make docs`); a test checks that it is current.

An option has one definition and three ways to be set. The later one wins: the TOML file (`--config FILE` or
`WARMROUTE_CONFIG`), the environment (`WARMROUTE_` and the option's name in capitals), the flag.
`warmroute config show` prints the effective values and where each came from. A key that does not exist is an
error, in every source. An empty variable counts as not set, and so do the `WARMROUTE_SERVICE_*` and
`WARMROUTE_PORT=tcp://…` variables that Kubernetes sets for a service of that name.

```toml
[listen]
port = 8080

[prompt]
tokenizer = "/models/llama-3.1-8b"

[[worker]]
name = "w1"
url = "http://10.0.0.1:8000"

[[worker]]
url = "http://10.0.0.2:8000"
```
"""


def render() -> str:
    """Write the whole page."""
    parts = [HEAD]
    parts.append("# `warmroute serve`\n")
    parts.extend(_section(section) for section in serve_schema().sections)
    parts.append("## `[[worker]]`: one worker, in the file only\n")
    parts.append(_table(options_of(WorkerOptions), flags=False))
    parts.append("# `warmroute sim-worker`\n\nIts options are flags only.\n")
    parts.extend(_section(section) for section in sim_worker_schema().sections)
    return "\n".join(parts)


def _section(section: Section) -> str:
    return f"## {section.name}: {section.title}\n\n{_table(section.options)}"


def _table(options: Iterable[Option], *, flags: bool = True) -> str:
    rows = ["| option | default | allowed | meaning |", "| --- | --- | --- | --- |"]
    rows.extend(
        _row(option.flag if flags else option.name, _default(option), _allowed(option), option.doc)
        for option in options
    )
    return "\n".join(rows) + "\n"


def _row(name: str, default: str, allowed: str, doc: str) -> str:
    return f"| `{name}` | {default} | {allowed} | {_cell(doc)} |"


def _default(option: Option) -> str:
    return "–" if option.default in (None, ()) else f"`{literal(option.default)}`"


def _allowed(option: Option) -> str:
    unit = f" {option.unit}" if option.unit else ""
    if option.kind in ("int", "float"):
        low = plain(option.minimum) if option.minimum is not None else ""
        high = plain(option.maximum) if option.maximum is not None else ""
        if not low and not high:
            return option.kind + unit
        return (f"{low} – {high}" if low and high else f"≥ {low}" if low else f"≤ {high}") + unit
    if option.kind == "choice":
        return ", ".join(f"`{choice}`" for choice in option.choices)
    return {"bool": "true, false", "str": "text", "list": "texts"}[option.kind]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(render(), end="")  # noqa: T201 - the page is what this prints
