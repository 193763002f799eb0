"""The fleet: which workers there are, whether they are up, what they serve. It pushes; nobody asks."""

from warmroute.fleet.client import WorkerClient
from warmroute.fleet.facts import Facts, Model
from warmroute.fleet.fleet import Fleet, RouterPort, WorkerState
from warmroute.fleet.trust import Trust
from warmroute.fleet.verdict import State, Verdict
from warmroute.fleet.verify import Verifier

__all__ = [
    "Facts",
    "Fleet",
    "Model",
    "RouterPort",
    "State",
    "Trust",
    "Verdict",
    "Verifier",
    "WorkerClient",
    "WorkerState",
]
