"""How many retries are allowed: a share of recent requests, and a small floor."""

from collections import deque

WINDOW_S = 10.0


class RetryBudget:
    """Counts the requests and the retries of the last seconds. Time is an argument."""

    def __init__(self, share: float, floor: float) -> None:
        """Take the share of recent requests that may be retried, and how many a second may be in any case."""
        self._share = share
        self._floor = floor
        self._requests: deque[list[float]] = deque()
        self._retries: deque[list[float]] = deque()

    def request(self, now: float) -> None:
        """A request came."""
        _count(self._requests, now)

    def take(self, now: float) -> bool:
        """Take one retry where the budget has it."""
        allowed = self._share * _recent(self._requests, now) + self._floor * WINDOW_S
        has = _recent(self._retries, now) + 1 <= allowed
        if has:
            _count(self._retries, now)
        return has


def _count(seconds: deque[list[float]], now: float) -> None:
    """One more in the current second; each second has one entry, so that the memory is bounded."""
    second = float(int(now))
    if seconds and seconds[-1][0] >= second:
        seconds[-1][1] += 1
    else:
        seconds.append([second, 1])
    _recent(seconds, now)


def _recent(seconds: deque[list[float]], now: float) -> float:
    while seconds and seconds[0][0] <= now - WINDOW_S - 1:
        seconds.popleft()
    return sum(count for _, count in seconds)
