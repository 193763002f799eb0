"""The one module that imports the compiled part; everything else of the package takes it from here."""

from warmroute._core import (
    PROXY_OPTIONS,
    ROUTER_OPTIONS,
    SIM_OPTIONS,
    Candidate,
    Cost,
    Decision,
    Explanation,
    Lease,
    OptionSpec,
    Prompter,
    Proxy,
    Router,
    SimServer,
    Tokenizer,
    WorkerView,
    __version__,
)

__all__ = [
    "PROXY_OPTIONS",
    "ROUTER_OPTIONS",
    "SIM_OPTIONS",
    "Candidate",
    "Cost",
    "Decision",
    "Explanation",
    "Lease",
    "OptionSpec",
    "Prompter",
    "Proxy",
    "Router",
    "SimServer",
    "Tokenizer",
    "WorkerView",
    "__version__",
]
