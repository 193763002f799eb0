"""Generated pages are what their generators write."""

from pathlib import Path

from warmroute.metrics import page as metrics_page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_metrics_is_current() -> None:
    assert (DOCS / "metrics.md").read_text() == metrics_page.render(), "run `make docs`"
