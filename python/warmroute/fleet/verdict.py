"""What is known of how a worker's tokens compare with ours."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from warmroute.fleet.canaries import Canary


class State(StrEnum):
    """Whether tokens made here are a worker's own."""

    UNVERIFIED = "unverified"
    VERIFIED = "verified"
    REFUSED = "refused"

    @classmethod
    def of(cls, difference: "Difference | None", compared: bool) -> "State":
        """What a difference, and a whole comparison without one, mean."""
        if difference is not None:
            return cls.REFUSED
        return cls.VERIFIED if compared else cls.UNVERIFIED


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token that differs; an id is `None` behind the end of the shorter list."""

    canary: Canary
    position: int
    ours: int | None
    theirs: int | None

    @classmethod
    def between(cls, canary: Canary, ours: list[int], theirs: list[int]) -> "Difference | None":
        """Find the first token that differs."""
        if ours == theirs:
            return None
        shorter = min(len(ours), len(theirs))
        at = next((at for at in range(shorter) if ours[at] != theirs[at]), shorter)
        return cls(canary, at, _at(ours, at), _at(theirs, at))

    def document(self) -> dict[str, Any]:
        """For a reply or a log line: names and numbers only."""
        return {
            "canary": self.canary.name,
            "position": self.position,
            "ours": self.ours,
            "theirs": self.theirs,
        }


def _at(ids: list[int], at: int) -> int | None:
    return ids[at] if at < len(ids) else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One worker's answers for one model.

    A difference in a text concerns chats, too; one that only chats have is the template's. An `error` that is
    `lasting` is not tried again. `unmade` is the reason why no chat can be rendered here, where none can.
    """

    text: State = State.UNVERIFIED
    chat: State = State.UNVERIFIED
    difference: Difference | None = None
    error: str = ""
    lasting: bool = False
    unmade: str = ""
    max_model_len: int | None = None

    def document(self) -> dict[str, Any]:
        """For a reply."""
        return {
            "text": self.text,
            "chat": self.chat,
            "difference": self.difference.document() if self.difference else None,
            "error": self.error or None,
            "unmade_chats": self.unmade or None,
        }
