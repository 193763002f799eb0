"""Open files: a thousand streams are more than a shell's usual limit."""

from __future__ import annotations

import resource


def raise_open_files() -> None:
    """Take as many as this process may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
