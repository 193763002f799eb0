"""Said at once, then once in an interval; nothing is left out."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from warmroute.rpc.tally import Tally


def test_the_first_is_said_at_once_and_the_rest_together() -> None:
    tally = Tally(10.0)
    assert tally.add(0, 100.0) == 0
    assert tally.add(3, 100.2) == 3
    assert [tally.add(1, 100.2 + step / 5) for step in range(1, 50)] == [0] * 49
    # What was counted is said when the interval is over, also where nothing comes then.
    assert tally.add(0, 110.3) == 49
    assert tally.add(0, 111.0) == 0
    assert tally.add(2, 150.0) == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 4, allow_nan=False)), max_size=100))
def test_all_are_said_and_no_two_within_an_interval(steps: list[tuple[int, float]]) -> None:
    tally, now = Tally(3.0), 0.0
    said: list[tuple[float, int]] = []
    for count, pause in steps:
        now += pause
        if told := tally.add(count, now):
            said.append((now, told))
    last = tally.add(0, now + 3.0)
    assert sum(told for _, told in said) + last == sum(count for count, _ in steps)
    moments = [at for at, _ in said]
    assert all(after >= before + 3.0 for before, after in itertools.pairwise(moments))
