"""How a source of workers fares: for the log, where it changes, and for the metrics."""

import time
from collections.abc import Callable
from typing import Any

from warmroute.logs import get

# Errors of one failure that are logged.
SAID_LIMIT = 4

log = get("discovery")


class Standing:
    """What is known of one source. A failure that lasts is said once, and so is what else goes wrong in it.

    Servers and hosts that do not answer come up in any order: what was said is not said again before the
    source is good, and a failure of many faces is not said whole.
    """

    def __init__(self, source: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the source's name."""
        self._source = source
        self._clock = clock
        self._began = clock()
        self._good_at: float | None = None
        self._good_time = 0.0
        self._error = ""
        self._said: set[str] = set()
        self.workers = 0
        self.failures = 0

    def good(self, workers: int) -> None:
        """The source answered, and lists so many workers."""
        if self._error:
            log.info("the source of workers is read again", source=self._source, workers=workers)
        self._error, self.workers, self._good_at = "", workers, self._clock()
        self._said.clear()
        self._good_time = time.time()

    def bad(self, error: object) -> None:
        """The source did not answer, or with something that is not used."""
        self.failures += 1
        text = str(error)
        if text not in self._said and len(self._said) < SAID_LIMIT:
            self._said.add(text)
            log.warning(
                "a source of workers cannot be used: what it said last stays",
                source=self._source,
                workers=self.workers,
                error=text,
            )
        self._error = text

    @property
    def bad_for_s(self) -> float:
        """Seconds since the last good answer, or since the start where there was none."""
        return self._clock() - (self._began if self._good_at is None else self._good_at)

    def document(self) -> dict[str, Any]:
        """For metrics and replies."""
        return {
            "workers": self.workers,
            "failing": bool(self._error),
            "failures": self.failures,
            "error": self._error,
            "good_at": self._good_time,
        }
