"""How the prompts of each model are had, as far as that does not depend on the request."""

from typing import Protocol

from warmroute.fleet import Fleet, Trust
from warmroute.fleet.health import Status
from warmroute.metrics import ModelRung

NO_TOKENIZER = "no_tokenizer"


class PrompterPort(Protocol):
    """What stands in the way of tokens that are made here."""

    def standing(self, model: str) -> tuple[str | None, str | None]:
        """The reasons for texts and for chats; `None` where nothing does."""


class Rungs:
    """The rungs of the models that the fleet serves."""

    def __init__(self, prompter: PrompterPort, fleet: Fleet, trust: Trust, worker_tokenize: str) -> None:
        """Take what knows the tokenizers, models and verdicts, and when workers are asked for tokens."""
        self._prompter = prompter
        self._fleet = fleet
        self._trust = trust
        self._worker_tokenize = worker_tokenize

    def models(self) -> list[ModelRung]:
        """Two entries for each model, by name."""
        names: set[str] = set()
        for state in self._fleet.states():
            if state.health.status is Status.UP:
                names.update(state.options.models or (model.id for model in state.facts.models))
        return [rung for name in sorted(names) for rung in self._model(name)]

    def _model(self, name: str) -> list[ModelRung]:
        states, reasons = self._trust.state(name), self._prompter.standing(name)
        verdicts = self._trust.verdicts(name)
        unmade = next((verdict.unmade for verdict in verdicts if verdict.unmade), None)
        # Every worker lacks `/tokenize`, so that none can be asked.
        mute = bool(verdicts) and all(verdict.lasting for verdict in verdicts)
        rungs = (self._rung(reasons[0], mute), self._rung(reasons[1] or unmade, mute))
        return [
            ModelRung(name, prompts, rung, state)
            for prompts, rung, state in zip(("texts", "chats"), rungs, states, strict=True)
        ]

    def _rung(self, reason: str | None, mute: bool) -> str:
        if reason is None:
            return "local"
        asks = {"off": False, "auto": reason != NO_TOKENIZER, "always": True}[self._worker_tokenize]
        return "worker" if asks and not mute else "text"
