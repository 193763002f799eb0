from __future__ import annotations

from warmroute.fleet.pulse import Pulse


def test_a_worker_without_requests_is_never_still() -> None:
    pulse = Pulse(10)
    pulse.activity(0, 0, 0, 0)
    pulse.activity(1000, 0, 0, 0)
    assert not pulse.is_still(1005)


def test_requests_that_do_not_move_are_still_after_twice_their_prefill_and_the_patience() -> None:
    pulse = Pulse(10)
    for now in range(61):
        pulse.activity(now, 1, 0, 25.0)
        assert not pulse.is_still(now)
    assert pulse.is_still(61)
    # One token, and it begins anew.
    pulse.activity(61, 1, 1, 25.0)
    assert not pulse.is_still(120)
    assert pulse.signs == 1


def test_an_engine_is_frozen_only_where_it_was_seen_so() -> None:
    pulse = Pulse(10)
    pulse.activity(0, 1, 0, 0)
    pulse.activity(20, 1, 0, 0)
    assert pulse.is_still(20)
    # Nobody read its metrics: replies that are not streamed look the same.
    assert not pulse.is_frozen()
    pulse.steps(20, 5)
    assert pulse.is_frozen()
    pulse.steps(21, 6)
    assert not pulse.is_frozen()
    # The last page is older than the standstill would be.
    pulse.activity(40, 1, 0, 0)
    assert pulse.is_still(40)
    assert not pulse.is_frozen()
    pulse.steps(41, 6)
    assert pulse.is_frozen()
    pulse.steps(42, None)
    assert not pulse.is_frozen()
