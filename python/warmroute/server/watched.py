"""What the fleet sees of its workers, for the metrics."""

from collections.abc import Mapping
from typing import Any

from warmroute.fleet import Fleet, Scraper

UNSCRAPED: Mapping[str, Any] = {"scrapes": 0, "scrape_failures": 0, "scraped": False}


def watched(fleet: Fleet, scraper: Scraper) -> dict[str, dict[str, Any]]:
    """By worker: looks that failed, whether it is slow or frozen, and its scrapes."""
    scrapes = scraper.stats()
    return {
        state.name: {
            "failures": state.health.failures,
            "slow": state.slow,
            "frozen": state.frozen_at is not None,
            **scrapes.get(state.name, UNSCRAPED),
        }
        for state in fleet.states()
    }
