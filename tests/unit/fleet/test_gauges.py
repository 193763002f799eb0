from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.vllm_page import page
from warmroute.fleet.gauges import Gauges, read_gauges


def test_vllm_s_page_is_read() -> None:
    data = page(running=16, waiting=8, usage=0.5, steps=7, started=1.5e9)
    assert 40_000 < len(data) < 120_000
    # Steps are the sum of what grows with them.
    assert read_gauges(data, None) == Gauges(24, 0.5, 7 + 700 + 700, 1.5e9, queries=700, hits=700)


def test_each_engine_has_its_own() -> None:
    data = page(running=3, engines=2).replace(
        b'running{engine="1",model_name="llama"} 3.0', b'running{engine="1"} 5'
    )
    found = [read_gauges(data, rank) for rank in (0, 1, 2)]
    assert [each and each.requests for each in found] == [3, 5, None]


@pytest.mark.parametrize(
    ("data", "requests"),
    [
        (b"", None),
        (b"# HELP vllm:num_requests_running x\n", None),
        (b"vllm:num_requests_running 3", 3),
        (b"vllm:num_requests_running{} 3\n", 3),
        (b'x 1\nvllm:num_requests_running{engine="0",model_name="a} b"} 3 1790000000\n', 3),
        (b'vllm:num_requests_running{model_name="a"} 3\nvllm:num_requests_running{model_name="b"} 4\n', 7),
        (b"vllm:num_requests_running NaN\n", None),
        (b"vllm:num_requests_running +Inf\n", None),
        (b"vllm:num_requests_running -1\n", None),
        (b"vllm:num_requests_running 1e300\n", None),
        (b"vllm:num_requests_running\n", None),
        (b"vllm:num_requests_running{\n", None),
        (b"vllm:num_requests_running_more 9\nvllm:num_requests_running 2\n", 2),
        (
            b"vllm:num_requests_running 1\nvllm:num_requests_waiting 1e300\nvllm:kv_cache_usage_perc 9\n",
            1 + 2**31,
        ),
    ],
)
def test_odd_pages(data: bytes, requests: int | None) -> None:
    found = read_gauges(data, None)
    assert (found and found.requests) == requests
    assert found is None or 0 <= found.kv_usage <= 1


NAMES = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "other",
    "# HELP x",
)
LINE = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(["", "{}", '{engine="0"}', '{engine="1",m="x"}']),
    st.integers(0, 9),
)


@given(st.lists(LINE, max_size=12), st.sampled_from([None, 0, 1]), st.booleans())
def test_it_equals_the_obvious_reader(
    lines: list[tuple[str, str, int]], rank: int | None, ends: bool
) -> None:
    # Samples of one name stand together, as the format demands.
    ordered = sorted(lines)
    text = "\n".join(f"{name}{labels} {value}" for name, labels, value in ordered) + ("\n" if ends else "")

    def total(name: str) -> int | None:
        found = [
            value
            for each, labels, value in ordered
            if each == name and ("engine" not in labels or re.search(f'engine="{rank or 0}"', labels))
        ]
        return sum(found) if found else None

    got, running = read_gauges(text.encode(), rank), total(NAMES[0])
    if running is None:
        assert got is None
    else:
        assert got is not None
        assert got.requests == running + (total(NAMES[1]) or 0)
        assert got.kv_usage == min(1.0, total(NAMES[2]) or 0)


@given(st.binary())
def test_any_bytes_are_read(data: bytes) -> None:
    read_gauges(b"vllm:num_requests_running{" + data, None)
    read_gauges(data, 3)
