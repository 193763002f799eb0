"""Send each LLM request to the vLLM worker whose KV cache is already warm for its prompt."""

from warmroute import errors
from warmroute.native import (
    Candidate,
    Cost,
    Decision,
    Explanation,
    Lease,
    Router,
    Tokenizer,
    WorkerView,
    __version__,
)

__all__ = [
    "Candidate",
    "Cost",
    "Decision",
    "Explanation",
    "Lease",
    "Router",
    "Tokenizer",
    "WorkerView",
    "__version__",
    "errors",
]
