"""The registry behind `/metrics`."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from warmroute.metrics.row import Snapshot
from warmroute.metrics.table import ROWS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(Collector):
    """The registry behind `/metrics`; it reads the counts when it is scraped, and keeps none itself."""

    def __init__(self, read: Callable[[], Snapshot]) -> None:
        """Take what reads the counts."""
        self._read = read
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

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
        return generate_latest(self._registry)
