"""The fleet: which workers there are, whether they are up, what they serve. It pushes; nobody asks."""

from warmroute.fleet.client import WorkerClient
from warmroute.fleet.discovery import Reconciler
from warmroute.fleet.events import Events
from warmroute.fleet.facts import Facts, Model
from warmroute.fleet.fleet import Fleet
from warmroute.fleet.follow import Follower
from warmroute.fleet.operator import Operator, WorkerEntry, entry_of
from warmroute.fleet.ports import RouterPort
from warmroute.fleet.scrape import Scraper
from warmroute.fleet.state import WorkerState
from warmroute.fleet.trust import Trust
from warmroute.fleet.verdict import State, Verdict
from warmroute.fleet.verify import Verifier

__all__ = [
    "Events",
    "Facts",
    "Fleet",
    "Follower",
    "Model",
    "Operator",
    "Reconciler",
    "RouterPort",
    "Scraper",
    "State",
    "Trust",
    "Verdict",
    "Verifier",
    "WorkerClient",
    "WorkerEntry",
    "WorkerState",
    "entry_of",
]
