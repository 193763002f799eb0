"""Which reservations are to be renewed, and when: callers need not report for no other end than to stay."""

from warmroute.client.messages import Booked

# Of the lease time; a renewal that is late by as much again is in time still.
_SHARE = 1 / 3
_IDLE_S = 1.0


class Keeper:
    """The open reservations of one client. Time is an argument."""

    def __init__(self) -> None:
        """Start without any."""
        self._due: dict[int, tuple[Booked, float]] = {}

    def add(self, booked: Booked, now: float) -> None:
        """A reservation was made or reported; one that ends with its stream needs no renewal."""
        if booked.lease_time_s > 0:
            self._due[booked.id] = booked, now + booked.lease_time_s * _SHARE

    def remove(self, booked: Booked) -> None:
        """A reservation has ended."""
        self._due.pop(booked.id, None)

    def due(self, now: float) -> list[Booked]:
        """Those to be renewed, each once."""
        due = [booked for booked, at in list(self._due.values()) if at <= now]
        for booked in due:
            self.add(booked, now)
        return due

    def wait_s(self, now: float) -> float:
        """How long nothing is due."""
        times = [at for _, at in list(self._due.values())]
        return max(0.01, min(times, default=now + _IDLE_S) - now)
