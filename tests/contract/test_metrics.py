"""The metrics table reads what the compiled part counts."""

from typing import Any

from warmroute.metrics import ROWS, Metrics, ModelRung, Snapshot
from warmroute.native import Mirror, Prompter, Proxy, Router
from warmroute.server.watched import UNSCRAPED
from warmroute.tasks import Tasks


def test_every_metric_is_there_before_the_first_request() -> None:
    router = Router()
    router.add_worker("w1")
    proxy = Proxy(router, Prompter(), control=lambda *_: (200, "text/plain", b""))
    snapshot = Snapshot(
        router=router.stats(),
        proxy=proxy.stats(),
        version="1",
        approximate=True,
        draining=False,
        models=[ModelRung("m", "chats", "local", "verified")],
        events={"w1": {**Mirror(router, "w1").stats(), "replays": 0, "catching_up": False, "age_s": 0.5}},
        fleet={"w1": {**UNSCRAPED, "failures": 0, "slow": False, "frozen": False}},
        tasks=Tasks().failures(),
    )
    page = Metrics(lambda: snapshot).render().decode()
    for row in ROWS:
        samples = [line for line in page.splitlines() if line.startswith(row.exposed)]
        assert samples, f"{row.exposed} has no sample"


class Watched(dict[str, Any]):
    """Counts that remember which of them were read."""

    def __init__(self, counts: dict[str, Any], name: str, read: set[str]) -> None:
        super().__init__(counts)
        self._name = name
        self._read = read

    def __getitem__(self, key: str) -> Any:
        self._read.add(f"{self._name}.{key}")
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._read.add(f"{self._name}.{key}")
        return super().get(key, default)


def test_every_counter_of_the_compiled_part_is_a_metric() -> None:
    router = Router()
    router.add_worker("w1")
    proxy = Proxy(router, Prompter(), control=lambda *_: (200, "text/plain", b""))
    counted, counts, seen = router.stats(), proxy.stats(), Prompter().cache_stats()
    read: set[str] = set()
    index, worker = counted.pop("index"), counted["workers"][0]
    watched = Watched(counted, "router", read)
    watched["index"] = Watched(index, "index", read)
    watched["workers"] = [Watched(worker, "worker", read)]
    snapshot = Snapshot(
        watched, Watched(counts, "proxy", read), "1", False, False, seen=Watched(seen, "seen", read)
    )
    for row in ROWS:
        list(row.read(snapshot))
    parts = {"router": counted, "index": index, "worker": worker, "proxy": counts, "seen": seen}
    assert {f"{name}.{key}" for name, part in parts.items() for key in part} - read == set()
