"""One worker as the fleet knows it, and what the router is told of it."""

from dataclasses import dataclass, field
from typing import Any

from warmroute.config import WorkerOptions
from warmroute.fleet.facts import Facts, Model
from warmroute.fleet.health import Health
from warmroute.fleet.pulse import Pulse

U32_MAX = 2**32 - 1


@dataclass(slots=True)
class WorkerState:
    """One worker as the fleet knows it; `told` is what the router knows.

    `slow`: it does not answer looks while its requests move. `frozen_at`: it answers them, and its engine has
    stood still since this many signs of life. `refused`: a connection could not be had since the last good
    look. `base` names the worker whose URL serves this one, too: a further rank comes and goes with it.
    """

    options: WorkerOptions
    health: Health
    pulse: Pulse
    source: str = ""
    base: str | None = None
    facts: Facts = field(default_factory=Facts)
    told: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    stale: bool = True
    draining: bool = False
    slow: bool = False
    frozen_at: int | None = None
    refused: bool = False
    learn_at: float = 0.0
    verify_at: float | None = None

    @property
    def name(self) -> str:
        """The worker's name."""
        return self.options.name or self.options.url


def terms(options: WorkerOptions, facts: Facts, block_size: int) -> dict[str, Any]:
    """What the router is told: the configuration first, then what the worker says."""
    kv_blocks = options.kv_blocks or facts.kv_blocks
    own_size = options.block_size or facts.block_size or block_size
    return {
        "url": options.url,
        # The router counts in its own blocks, also where the worker cuts its KV cache otherwise.
        "kv_blocks": min(max(1, kv_blocks * own_size // block_size), U32_MAX) if kv_blocks else None,
        "block_size": block_size,
        "models": options.models or tuple(model.id for model in facts.models),
        "adapters": tuple(model.id for model in facts.models if model.parent),
        "max_model_len": options.max_model_len or facts.max_model_len,
        "max_requests": options.max_requests,
        "dp_rank": options.dp_rank,
    }


def models_of(state: WorkerState) -> list[Model]:
    """What the worker serves: the configuration first, then what the worker says."""
    known = {model.id: model for model in state.facts.models}
    return [known.get(name, Model(name)) for name in state.options.models or known]


def is_another_process(before: Facts, after: Facts) -> bool:
    """Whether it is another process than before, although it never was down for long enough to count."""
    return before.started is not None and after.started is not None and before.started != after.started
