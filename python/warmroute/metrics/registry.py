"""The page behind `/metrics`."""

import threading
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from warmroute.metrics.row import Snapshot
from warmroute.metrics.table import ROWS
from warmroute.metrics.text import render

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# For how many times as long as it took to make, a page is given again: whoever scrapes often, or in numbers,
# takes a fifth of one core at most, and what else runs in the process keeps its share.
KEPT = 4


class Metrics:
    """Reads the counts when it is scraped, and keeps none itself. Called from any thread."""

    def __init__(self, read: Callable[[], Snapshot], clock: Callable[[], float] = time.monotonic) -> None:
        """Take what reads the counts, and a clock in seconds."""
        self._read = read
        self._clock = clock
        self._process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._process)
        self._making = threading.Lock()
        self._page = b""
        self._good_until = -1.0

    def render(self) -> bytes:
        """The page that a scrape gets."""
        with self._making:
            began = self._clock()
            if began >= self._good_until:
                self._page = render(ROWS, self._read()) + generate_latest(self._process)
                ended = self._clock()
                self._good_until = ended + KEPT * (ended - began)
            return self._page
