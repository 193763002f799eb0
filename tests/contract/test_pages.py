"""Generated pages are what their generators write."""

from pathlib import Path

import pytest

from bench.exact import page as tokenizers_page
from warmroute.config import page as configuration_page
from warmroute.metrics import page as metrics_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("configuration.md", configuration_page.render()),
        ("metrics.md", metrics_page.render()),
        ("tokenizers.md", tokenizers_page.current()),
    ],
)
def test_the_page_is_current(name: str, text: str) -> None:
    assert (DOCS / name).read_text() == text, "run `make docs`"
