"""What a metric is: a row with a name, a meaning, labels, and where its samples come from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

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
