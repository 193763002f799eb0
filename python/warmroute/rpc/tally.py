"""What happens often is said seldom: once in an interval, with a count."""


class Tally:
    """Counts events until they are to be said. Time is an argument."""

    def __init__(self, interval_s: float) -> None:
        """Take the seconds between two sayings."""
        self._interval_s = interval_s
        self._count = 0
        self._from = 0.0

    def add(self, count: int, now: float) -> int:
        """Count events, or none; how many are to be said: all since the last time, or none yet."""
        self._count += count
        if not self._count or now < self._from:
            return 0
        said, self._count, self._from = self._count, 0, now + self._interval_s
        return said
