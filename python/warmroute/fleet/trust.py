"""What the workers' answers mean for each model; the prompter is told, and the log when it changes."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from warmroute.fleet.verdict import Difference, State, Verdict
from warmroute.logs import get

log = get("fleet")

REMEDY = (
    "give this model the tokenizer and chat template that its workers use (--tokenizer MODEL=PATH, "
    "--chat-template), or restart the worker that differs; until then a worker is asked for tokens, or "
    "prompts are matched as text"
)


# Names of models that one log line shows.
SHOWN = 5

# The states of texts and chats, and whether one was refused before.
_Change = tuple[tuple[State, State], bool]


class PrompterPort(Protocol):
    """Whoever makes tokens is told whether they are to be trusted."""

    def set_trust(self, model: str, text: str, chat: str) -> None:
        """Say what is known of a model's tokens: `unverified`, `verified` or `refused`, each."""

    def forget(self, model: str) -> None:
        """Forget a model that no worker serves."""


class Trust:
    """The verdicts of the workers that are up.

    A model's tokens are refused while any worker of it disagrees: which one a request meets is not known when
    it is encoded. They are verified where one agrees and none disagrees.
    """

    def __init__(self, prompter: PrompterPort) -> None:
        """Take whom to tell."""
        self._prompter = prompter
        self._verdicts: dict[str, dict[str, Verdict]] = {}
        self._states: dict[str, tuple[State, State]] = {}

    def learn(self, worker: str, verdicts: Mapping[str, Verdict]) -> None:
        """A worker was compared, or compared again."""
        before = self._verdicts.get(worker, {})
        self._verdicts[worker] = dict(verdicts)
        self._push(before.keys() | verdicts.keys())
        for model, verdict in verdicts.items():
            if verdict.error:
                log.once(
                    (worker, model),
                    "tokens are not verified: the worker did not say how it tokenizes",
                    model=model,
                    worker=worker,
                    error=verdict.error,
                )
            if verdict.unmade:
                log.once(
                    model,
                    "chats of this model cannot be rendered here: a worker is asked for tokens, or they are "
                    "matched as text",
                    model=model,
                    reason=verdict.unmade,
                )

    def forget(self, worker: str) -> None:
        """A worker is down, or removed."""
        self._push(self._verdicts.pop(worker, {}).keys())

    def of(self, worker: str) -> Mapping[str, Verdict]:
        """A worker's verdicts, by model."""
        return self._verdicts.get(worker, {})

    def state(self, model: str) -> tuple[State, State]:
        """What holds for the texts and the chats of a model."""
        return self._states.get(model, (State.UNVERIFIED, State.UNVERIFIED))

    def verdicts(self, model: str) -> list[Verdict]:
        """What the workers of a model that are up say of it."""
        return [found[model] for found in self._verdicts.values() if model in found]

    def _push(self, models: Iterable[str]) -> None:
        changes: dict[tuple[_Change, str, Difference | None], list[str]] = {}
        for model in sorted(models):
            verdicts = {worker: found[model] for worker, found in self._verdicts.items() if model in found}
            before = self._states.pop(model, None)
            if not verdicts:
                self._prompter.forget(model)
                continue
            text = _merged(verdict.text for verdict in verdicts.values())
            chat = _merged(verdict.chat for verdict in verdicts.values())
            self._states[model] = (text, chat)
            self._prompter.set_trust(model, text, chat)
            if before != (text, chat):
                worker = next((w for w, v in verdicts.items() if v.chat is State.REFUSED), "")
                difference = verdicts[worker].difference if worker else None
                change = ((text, chat), before is not None and State.REFUSED in before)
                changes.setdefault((change, worker, difference), []).append(model)
        # The names of one model and its adapters change together, and are said together.
        for (change, worker, difference), named in changes.items():
            _say(named, change, worker, difference)


def _merged(states: Iterable[State]) -> State:
    found = set(states)
    for state in (State.REFUSED, State.VERIFIED):
        if state in found:
            return state
    return State.UNVERIFIED


def _say(models: list[str], change: _Change, worker: str, difference: Difference | None) -> None:
    (text, chat), was_refused = change
    shown = ", ".join(models[:SHOWN]) + (f" and {len(models) - SHOWN} more" if len(models) > SHOWN else "")
    if chat is State.REFUSED:
        log.error(
            "LOCAL TOKENS ARE OFF for this model: a worker makes others",
            model=shown,
            off="chats and completions" if text is State.REFUSED else "chats",
            worker=worker,
            **(difference.document() if difference else {}),
            remedy=REMEDY,
        )
    elif was_refused:
        log.info("local tokens are on again: no worker that is up makes others", model=shown)
    elif text is State.VERIFIED:
        log.info("local tokens are verified", model=shown, texts=text, chats=chat)
