"""The fleet: which workers there are, whether they are up, what they serve. It pushes; nobody asks."""

from warmroute.fleet.client import WorkerClient
from warmroute.fleet.facts import Facts, Model
from warmroute.fleet.fleet import Fleet, RouterPort, WorkerState

__all__ = ["Facts", "Fleet", "Model", "RouterPort", "WorkerClient", "WorkerState"]
