"""The metrics table reads what the compiled part counts."""

from warmroute import Router
from warmroute.metrics import ROWS, Metrics, Snapshot


def test_every_metric_is_there_before_the_first_request() -> None:
    router = Router()
    router.add_worker("w1")
    snapshot = Snapshot(router=router.stats(), proxy={}, version="1", approximate=True, draining=False)
    page = Metrics(lambda: snapshot).render().decode()
    for row in ROWS:
        samples = [line for line in page.splitlines() if line.startswith(row.exposed)]
        assert samples, f"{row.exposed} has no sample"
