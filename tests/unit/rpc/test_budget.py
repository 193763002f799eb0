from hypothesis import given
from hypothesis import strategies as st

from warmroute.rpc.budget import WINDOW_S, RetryBudget

STEPS = st.lists(
    st.tuples(st.floats(0, 3, allow_nan=False), st.sampled_from(["request", "take"])), max_size=200
)


def takes(budget: RetryBudget, now: float) -> int:
    count = 0
    while count < 1_000 and budget.take(now):
        count += 1
    return count


def test_a_share_of_recent_requests_and_a_floor() -> None:
    budget = RetryBudget(share=0.1, floor=1.0)
    assert takes(budget, 0.0) == 10
    for _ in range(500):
        budget.request(0.5)
    assert takes(budget, 0.5) == 50
    assert takes(budget, 5.0) == 0
    # Retries are forgotten with the requests that allowed them.
    assert takes(budget, 20.0) == 10


def test_none_without_share_and_floor() -> None:
    budget = RetryBudget(0.0, 0.0)
    budget.request(0.0)
    assert not budget.take(0.0)


@given(STEPS)
def test_never_more_than_the_share_of_what_a_list_remembers(steps: list[tuple[float, str]]) -> None:
    budget, now = RetryBudget(0.5, 0.1), 0.0
    requests: list[float] = []
    retries: list[float] = []
    for pause, step in steps:
        now += pause
        if step == "request":
            budget.request(now)
            requests.append(now)
        elif budget.take(now):
            retries.append(now)
            # Seconds are counted whole, so that up to two more than the window count.
            recent = sum(at > now - WINDOW_S - 2 for at in requests)
            taken = sum(at > now - WINDOW_S for at in retries)
            assert taken <= 0.5 * recent + 0.1 * WINDOW_S
