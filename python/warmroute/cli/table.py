"""Tables for people."""

from collections.abc import Sequence
from typing import Any


def render(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns under their heads; numbers stand to the right, `None` is a dash."""
    texts = [[_text(value) for value in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(head, *texts, strict=True)]
    right = [all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(head), *texts]
    ]
    return "\n".join(lines)


def _text(value: Any) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)
