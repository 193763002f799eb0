"""Which reservations are to be renewed, and when: callers need not report for no other end than to stay."""

import threading

from warmroute.client.messages import Booked
from warmroute.errors import RequestError, WarmrouteError
from warmroute.logs import get

# Of the lease time; a renewal that is late by as much again is in time still.
_SHARE = 1 / 3
_IDLE_S = 1.0

log = get("client")


class Keeper:
    """The open reservations of one client, and what became of their reports. Time is an argument."""

    def __init__(self) -> None:
        """Start without any."""
        self._due: dict[int, tuple[Booked, float]] = {}
        self._fault: Exception | None = None
        self._lock = threading.Lock()

    def told(self, booked: Booked, now: float) -> None:
        """It was made or is reported; one that has ended, or ends with its stream, needs no renewal."""
        with self._lock:
            if booked.is_open and booked.lease_time_s > 0:
                self._due[booked.id] = booked, now + booked.lease_time_s * _SHARE
            else:
                self._due.pop(booked.id, None)

    def lost(self, booked: Booked, error: WarmrouteError) -> None:
        """A report did not arrive; a reservation that the router does not know needs no renewal."""
        if isinstance(error, RequestError):
            with self._lock:
                self._due.pop(booked.id, None)
        log.warning("a report did not arrive", worker=booked.worker, error=error)

    def due(self, now: float) -> list[Booked]:
        """Those to be renewed, each once."""
        with self._lock:
            due = [booked for booked, at in self._due.values() if at <= now]
        for booked in due:
            self.told(booked, now)
        return due

    def wait_s(self, now: float) -> float:
        """How long nothing is due."""
        with self._lock:
            times = [at for _, at in self._due.values()]
        return max(0.01, min(times, default=now + _IDLE_S) - now)

    def failed(self, fault: Exception) -> None:
        """A renewal failed for a reason that is not the router's: it is logged, once until `check` tells."""
        with self._lock:
            known, self._fault = self._fault, fault
        if known is None:
            log.error("reservations could not be renewed", exc_info=fault)

    def check(self) -> None:
        """Raise what a renewal failed for, once: callers learn of it, since nobody waits for renewals."""
        with self._lock:
            fault, self._fault = self._fault, None
        if fault is not None:
            raise WarmrouteError(f"reservations could not be renewed: {fault!r}") from fault
