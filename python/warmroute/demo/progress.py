"""Progress on a terminal: one line that changes; plain lines where the output is no terminal."""

import sys
import time
from typing import TextIO

PLAIN_EVERY_S = 10.0


class Progress:
    """Shows how far a play is."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Take where to write; standard error unless given, so that results alone are on standard output."""
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._last = 0.0

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._stream.write(("\r\x1b[K" if self._live else "") + text + "\n")
        self._stream.flush()

    def update(self, text: str) -> None:
        """Replace the changing line; without a terminal, write a line now and then."""
        if self._live:
            self._stream.write("\r\x1b[K" + text)
            self._stream.flush()
        elif time.monotonic() - self._last >= PLAIN_EVERY_S:
            self._last = time.monotonic()
            self._stream.write(text + "\n")
            self._stream.flush()

    def clear(self) -> None:
        """Remove the changing line."""
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
