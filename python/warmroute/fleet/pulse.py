"""Whether a worker's requests move: what tells a long prefill from a frozen engine. Pure."""


class Pulse:
    """When a worker last gave a sign of life: a token of one of our requests, or a step of its engine.

    A worker without requests is as alive as it can be. Seconds are of any clock that does not go back.
    """

    def __init__(self, patience_s: float) -> None:
        """Take how long requests may stand still beyond what their prefill is expected to take."""
        self._patience_s = patience_s
        self._moves = 0
        self._steps: float | None = None
        self._read_at: float | None = None
        self._since: float | None = None
        self._wait_s = 0.0
        self.signs = 0

    def activity(self, now: float, requests: int, moves: int, wait_s: float) -> None:
        """Take what the router counts: active requests, signs of life of them, and the prefill dispatched."""
        if moves != self._moves:
            self._sign(now)
        elif requests == 0 or self._since is None:
            self._since = now
        self._moves, self._wait_s = moves, wait_s

    def steps(self, now: float, steps: float | None) -> None:
        """Take what grows with the engine's steps; `None` where its metrics do not say."""
        if steps is not None and self._steps is not None and steps != self._steps:
            self._sign(now)
        self._steps = steps
        self._read_at = now if steps is not None else None

    def is_still(self, now: float) -> bool:
        """Whether nothing has moved for longer than the expected prefill can explain.

        The expectation may be off by twice: prices are learnt.
        """
        return self._since is not None and now - self._since > self._patience()

    def is_frozen(self) -> bool:
        """Whether the engine itself was seen to stand still for so long.

        Our own counts alone cannot tell: a reply that is not streamed shows nothing until its end.
        """
        return self._read_at is not None and self.is_still(self._read_at)

    def _patience(self) -> float:
        return self._patience_s + 2 * self._wait_s

    def _sign(self, now: float) -> None:
        self._since = now
        self.signs += 1
