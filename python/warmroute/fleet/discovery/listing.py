"""What a source says of one worker."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from warmroute.config import WorkerOptions

API = "api"
CONFIG = "config"
FILE = "file"
KUBERNETES = "kubernetes"
DNS = "dns"

# Who is believed where several sources list one URL: what a person said last, before what was configured,
# before what is found.
PRECEDENCE = (API, CONFIG, FILE, KUBERNETES, DNS)

Key = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Listing:
    """A worker, as one source lists it.

    `draining`: the source says that it takes nothing new. `instance` differs once another process has the
    worker's place; it is empty where the source cannot tell.
    """

    worker: WorkerOptions
    draining: bool = False
    instance: str = ""

    @property
    def name(self) -> str:
        """The name that the source gives it."""
        return self.worker.name or self.worker.url

    @property
    def key(self) -> Key:
        """What makes it the same worker in every source: where it serves, and which rank."""
        return self.worker.url, self.worker.dp_rank


Publish = Callable[[Sequence[Listing]], None]


class Source(Protocol):
    """Whoever finds workers."""

    @property
    def name(self) -> str:
        """One of `PRECEDENCE`."""

    async def run(self, publish: Publish) -> None:
        """Publish every worker that is known whenever that changes, until cancelled."""
