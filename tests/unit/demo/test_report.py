import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.demo import report
from warmroute.demo.client import Turn
from warmroute.demo.figures import Figures, Reading, judge, percentile, reading
from warmroute.demo.progress import Progress
from warmroute.demo.scenario import Scenario

WORKER = {
    "prefix_hits": 90,
    "prefix_queries": 100,
    "busy_seconds": 10.0,
    "recompute_seconds": 4.0,
    "peak_lag": 0.5,
}
NOTHING = Reading(10.0, dict.fromkeys(WORKER, 0.0), 0.0)


def figures() -> Figures:
    turns = [Turn(sent, sent + 0.5, sent + 1.0, 100, 90) for sent in (5.0, 10.0, 12.0, 18.5, 19.5)]
    found = judge(turns, NOTHING, reading(20.0, [WORKER, WORKER]), speed=4.0)
    return replace(found, failed=2, last_failure="the connection was closed")


def test_figures_are_of_the_window_and_in_simulated_seconds() -> None:
    found = figures()
    # Three of the five turns end between the readings at 10 and 20 s.
    assert (found.requests, found.seconds, found.requests_per_second) == (3, 40.0, 3 / 40)
    assert (found.ttft_p50, found.e2e_p99) == (2.0, 4.0)
    assert (found.hit_rate, found.recompute_share, found.peak_lag, found.failed) == (0.9, 0.4, 0.5, 2)


def test_a_play_without_requests_has_no_figures_and_no_fault() -> None:
    found = judge([], NOTHING, replace(NOTHING, at=20.0), speed=1.0)
    assert math.isnan(found.hit_rate)
    assert math.isnan(found.ttft_p99)


@given(st.lists(st.integers(), min_size=1), st.floats(0, 1))
def test_a_percentile_is_a_value_that_enough_others_do_not_exceed(values: list[int], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)


def test_the_table_sets_the_plays_side_by_side() -> None:
    text = report.table({"round robin": figures(), "routed": figures()}, Scenario(seed=7), 4.0)
    rows = [line.split("  ") for line in text.splitlines()]
    assert text.splitlines()[0].split() == ["round", "robin", "routed"]
    assert [cell.strip() for cell in rows[1] if "%" in cell] == ["90.0%", "90.0%"]
    assert "of which 4 pass in a real one" in text
    assert "seed 7" in text
    assert text.count("the last failure was: the connection was closed") == 2
    assert "late by" not in text


def test_a_machine_that_lags_is_said() -> None:
    text = report.table({"routed": replace(figures(), peak_lag=5.0)}, Scenario(), 4.0)
    assert "late by 5.0 s" in text


def test_the_json_has_figures_seed_and_version(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    nothing = judge([], NOTHING, replace(NOTHING, at=20.0), speed=1.0)
    report.write(path, {"round robin": nothing, "routed": figures()}, Scenario(seed=7), 4.0)
    document = json.loads(path.read_text())
    assert (document["seed"], document["speed"], document["scenario"]["agents"]) == (7, 4.0, 24)
    assert document["plays"]["routed"]["hit_rate"] == 0.9
    assert document["plays"]["round robin"]["hit_rate"] is None
    assert document["version"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_changing_line() -> None:
    stream = Terminal()
    progress = Progress(stream)
    progress.update("a")
    progress.update("b")
    progress.say("c")
    assert stream.getvalue() == "\r\x1b[Ka\r\x1b[Kb\r\x1b[Kc\n"


def test_without_a_terminal_there_are_few_plain_lines() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    for text in "abc":
        progress.update(text)
    progress.clear()
    assert stream.getvalue() == "a\n"


@pytest.mark.parametrize("stats", [[], [WORKER]])
def test_readings_are_sums(stats: list[dict[str, float]]) -> None:
    assert reading(1.0, stats).counters["prefix_hits"] == 90.0 * len(stats)
