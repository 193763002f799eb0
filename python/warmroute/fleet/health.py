"""Up or down, with hysteresis: one good look takes a worker in, several bad ones in a row take it out."""

from enum import StrEnum


class Status(StrEnum):
    """What is known of a worker's health."""

    UNKNOWN = "unknown"
    UP = "up"
    DOWN = "down"


class Health:
    """The health of one worker. Pure: it is told what was seen."""

    def __init__(self, failures_to_down: int) -> None:
        """Take how many failed looks in a row mean that the worker is down."""
        self._failures_to_down = failures_to_down
        self.status = Status.UNKNOWN
        self.failures = 0

    def good(self) -> bool:
        """A look succeeded; returns whether the worker has come up by it."""
        came_up = self.status is not Status.UP
        self.status, self.failures = Status.UP, 0
        return came_up

    def bad(self, *, at_once: bool = False) -> bool:
        """A look failed; returns whether the worker has gone down by it. `at_once` needs no others."""
        self.failures += 1
        # A worker that was never up is not waited for: there is nothing to be lenient about.
        enough = at_once or self.status is Status.UNKNOWN or self.failures >= self._failures_to_down
        if self.status is Status.DOWN or not enough:
            return False
        self.status = Status.DOWN
        return True
