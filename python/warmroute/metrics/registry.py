"""The registry behind `/metrics`."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from warmroute.metrics.row import Snapshot
from warmroute.metrics.table import ROWS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# For how many times as long as it took to make, a page is given again: whoever scrapes often, or in numbers,
# takes a fifth of one core at most, and what else runs in the process keeps its share.
KEPT = 4


class Metrics(Collector):
    """The registry behind `/metrics`; it reads the counts when it is scraped.

    `render` is called from any thread.
    """

    def __init__(self, read: Callable[[], Snapshot], clock: Callable[[], float] = time.monotonic) -> None:
        """Take what reads the counts, and a clock in seconds."""
        self._read = read
        self._clock = clock
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self._making = threading.Lock()
        self._page = b""
        self._good_until = -1.0

    def describe(self) -> Iterable[Metric]:
        """Nothing: the names are known from the table, and reading them would need the parts."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every row's metric."""
        snapshot = self._read()
        for row in ROWS:
            yield row.family(snapshot)

    def render(self) -> bytes:
        """The page that a scrape gets."""
        with self._making:
            began = self._clock()
            if began >= self._good_until:
                self._page = generate_latest(self._registry)
                ended = self._clock()
                self._good_until = ended + KEPT * (ended - began)
            return self._page
