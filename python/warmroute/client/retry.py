"""When a call is made again: when the router says so, and within the caller's time."""

import time

from warmroute.errors import FleetError, WarmrouteError, WorkerRefused, WorkerUnreachable


class Patience:
    """The time that a caller has, over all tries of one call."""

    def __init__(self, timeout_s: float | None) -> None:
        """Take the seconds; `None` for no bound, and then nothing is tried again."""
        self._until = None if timeout_s is None else time.monotonic() + timeout_s
        self.attempt = 1

    def left(self) -> float | None:
        """Seconds that are left; `None` for no bound."""
        return None if self._until is None else max(0.0, self._until - time.monotonic())

    def pause(self, error: WarmrouteError) -> float:
        """Seconds until the call is to be made again; raises the error where it is not."""
        after, left = _advice(error), self.left()
        if after is None or left is None or after >= left:
            raise error
        self.attempt += 1
        return after


def _advice(error: WarmrouteError) -> float | None:
    """After how many seconds trying again makes sense, as the router said; `None` where it does not."""
    if isinstance(error, FleetError):
        return error.retry_after_s or None
    return error.retry_after_s if isinstance(error, WorkerUnreachable | WorkerRefused) else None
