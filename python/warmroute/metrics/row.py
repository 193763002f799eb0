"""What a metric is: a row with a name, a meaning, labels, and where its samples come from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

Sample = tuple[tuple[str, ...], Any]


@dataclass(frozen=True, slots=True)
class ModelRung:
    """How a model's prompts of one kind, chats or texts, are had, and what is known of tokens made here."""

    model: str
    prompts: str
    rung: str
    state: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the parts count at one moment."""

    router: Mapping[str, Any]
    proxy: Mapping[str, Any]
    version: str
    approximate: bool
    draining: bool
    models: Sequence[ModelRung] = ()
    checks: Mapping[str, Any] = field(default_factory=dict)
    seen: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    grpc: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fleet: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)


Read = Callable[[Snapshot], Iterable[Sample]]


@dataclass(frozen=True, slots=True)
class Row:
    """One metric; its name is without the suffix that its kind gives it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    doc: str
    read: Read
    labels: tuple[str, ...] = ()

    @property
    def exposed(self) -> str:
        """The name as a scrape shows it."""
        return self.name + ("_total" if self.kind == "counter" else "")

    def family(self, snapshot: Snapshot) -> Metric:
        """The metric with its samples."""
        if self.kind == "histogram":
            histogram = HistogramMetricFamily(self.name, self.doc, labels=self.labels)
            for labels, value in self.read(snapshot):
                histogram.add_metric(labels, buckets=_buckets(value), sum_value=value.get("sum_seconds"))
            return histogram
        family = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        metric = family(self.name, self.doc, labels=self.labels)
        for labels, value in self.read(snapshot):
            metric.add_metric(labels, float(value))
        return metric


def _buckets(value: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Cumulated buckets from counts by upper bound; the last count is of what lies above every bound.

    Before the proxy has started there are neither bounds nor counts.
    """
    total, buckets = 0, []
    for bound, count in zip([*value["bounds"], float("inf")], value["counts"] or [0], strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else repr(float(bound)), float(total)))
    return buckets
