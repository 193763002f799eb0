"""The one module that imports the compiled part; everything else of the package takes it from here."""

from warmroute._core import (
    ROUTER_OPTIONS,
    SIM_OPTIONS,
    Candidate,
    Cost,
    Decision,
    Explanation,
    Lease,
    OptionSpec,
    Prompter,
    Router,
    SimServer,
    WorkerView,
    __version__,
)

__all__ = [
    "ROUTER_OPTIONS",
    "SIM_OPTIONS",
    "Candidate",
    "Cost",
    "Decision",
    "Explanation",
    "Lease",
    "OptionSpec",
    "Prompter",
    "Router",
    "SimServer",
    "WorkerView",
    "__version__",
]
