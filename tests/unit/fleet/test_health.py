from hypothesis import given
from hypothesis import strategies as st

from warmroute.fleet.health import Health, Status


def test_one_good_look_takes_a_worker_in() -> None:
    health = Health(3)
    assert health.good()
    assert not health.good()
    assert health.status is Status.UP


def test_a_worker_that_never_was_up_is_down_at_once() -> None:
    health = Health(3)
    assert health.bad()
    assert not health.bad()
    assert health.status is Status.DOWN


@given(st.integers(1, 5), st.lists(st.booleans()))
def test_it_equals_the_obvious_model(limit: int, looks: list[bool]) -> None:
    health = Health(limit)
    seen: list[bool] = []
    up: bool | None = None
    for look in looks:
        seen.append(look)
        before = up
        if look:
            up = True
        elif up is None or (len(seen) >= limit and not any(seen[-limit:])):
            up = False
        changed = health.good() if look else health.bad()
        assert changed == (up is not before)
        assert health.status is {None: Status.UNKNOWN, True: Status.UP, False: Status.DOWN}[up]
