"""docs/metrics.md, written from the table so that it cannot differ from it."""

from warmroute.metrics.row import Row
from warmroute.metrics.table import SECTIONS

HEAD = """# Metrics

This page is generated from the metrics table (`make docs`); a test checks that it is current.

`warmroute serve` answers `GET /metrics` in Prometheus' text format. Every metric is there from the start.
Label values are bounded: names of workers and of the models that they serve come from the fleet, the others
from fixed lists. Names of tenants and clients, and what requests call a model, are never labels. `process_*`
metrics stand beside these.

A worker has up to 30 samples: the page of 5,000 workers has 8 MB and takes half a second of one core, beside
the requests. A page is given again for four times as long as it took to make, so that whoever scrapes often
costs no more than a fifth of a core; that of a small fleet is always fresh.
"""


def render() -> str:
    """Write the whole page."""
    parts = [HEAD]
    for title, rows in SECTIONS:
        lines = [f"## {title}", "", "| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
        lines.extend(_line(row) for row in rows)
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _line(row: Row) -> str:
    labels = ", ".join(f"`{label}`" for label in row.labels) or "–"
    return f"| `{row.exposed}` | {row.kind} | {labels} | {row.doc} |"


if __name__ == "__main__":
    print(render(), end="")  # noqa: T201 - the page is what this prints
