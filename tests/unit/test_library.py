"""The library: arguments, errors, leases and threads."""

import array
import asyncio
import ctypes
import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import warmroute
from warmroute import errors
from warmroute.native import ROUTER_OPTIONS

IDS = list(range(1000))


@pytest.fixture
def router() -> warmroute.Router:
    router = warmroute.Router(block_size=16)
    router.add_worker("w1", url="http://10.0.0.1:8000", kv_blocks=26_000)
    router.add_worker("w2", url="http://10.0.0.2:8000", kv_blocks=26_000)
    return router


FORMS: dict[str, Callable[[Sequence[int]], Any]] = {
    "bytes": lambda ids: np.array(ids, dtype="<u4").tobytes(),
    "bytearray": lambda ids: bytearray(np.array(ids, dtype="<u4").tobytes()),
    "memoryview of bytes": lambda ids: memoryview(np.array(ids, dtype="<u4").tobytes()),
    "array I": lambda ids: array.array("I", ids),
    "array i": lambda ids: array.array("i", ids),
    "array q": lambda ids: array.array("q", ids),
    "numpy uint32": lambda ids: np.array(ids, dtype=np.uint32),
    "numpy int32": lambda ids: np.array(ids, dtype=np.int32),
    "numpy int64": lambda ids: np.array(ids, dtype=np.int64),
    "numpy uint64": lambda ids: np.array(ids, dtype=np.uint64),
    "little-endian by name": lambda ids: memoryview((ctypes.c_uint32 * len(ids))(*ids)),
    "numpy with strides": lambda ids: np.repeat(np.array(ids, dtype=np.uint32), 2)[::2],
    "read-only numpy": lambda ids: np.frombuffer(np.array(ids, dtype="<u4").tobytes(), dtype=np.uint32),
    "list": list,
    "tuple": tuple,
    "range": lambda ids: range(len(ids)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_tokens_is_the_same_prompt(
    router: warmroute.Router, form: Callable[[Sequence[int]], Any]
) -> None:
    with router.route(FORMS["bytes"](IDS)) as lease:
        home = lease.worker
    decision = router.decide(form(IDS))
    assert (decision.worker, decision.overlap_tokens, decision.prompt_tokens) == (home, 992, 1000)


@pytest.mark.parametrize(
    ("tokens", "named"),
    [
        ([1, -1], "-1"),
        ([2**32], "4294967296"),
        ([1.5], "float"),
        (["a"], "str"),
        ([10**60], "1000"),
        ("abc", "str"),
        (b"abc", "3 bytes"),
        (bytearray(b"abcde"), "5 bytes"),
        (7, "int"),
        (None, "None"),
        (np.array([-5]), "-5"),
        (np.array([2**40]), str(2**40)),
        (np.array([1.0]), "buffer"),
        (array.array("i", [3, -2]), "-2"),
        (np.array([1, 2], dtype=">u4"), ">I"),
        (np.array([1, 2], dtype=">i8"), ">"),
        (iter([1, 2]), "iterator"),
        ({1, 2}, "set"),
    ],
)
def test_what_is_no_token_id_is_named(router: warmroute.Router, tokens: Any, named: str) -> None:
    for call in (router.route, router.decide, router.explain):
        with pytest.raises(errors.InvalidRequest, match=named):
            call(tokens)
    assert router.stats()["open"] == 0


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ({"block_size": 0}, "block_size", 0),
        ({"block_size": -1}, "block_size", -1),
        ({"block_size": 2**70}, "block_size", 2**70),
        ({"block_size": "16"}, "block_size", "16"),
        ({"block_size": True}, "block_size", True),
        ({"warm_share": 1.5}, "warm_share", 1.5),
        ({"policy": "fastest"}, "policy", "fastest"),
        ({"blocksize": 16}, "blocksize", 16),
    ],
)
def test_a_wrong_option_names_key_value_and_what_is_allowed(
    options: dict[str, Any], key: str, value: Any
) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        warmroute.Router(**options)
    assert (caught.value.key, caught.value.value) == (key, value)
    spec = next((spec for spec in ROUTER_OPTIONS if spec.name == key), None)
    assert caught.value.allowed == spec.allowed if spec else "block_size" in caught.value.allowed


@pytest.mark.parametrize("spec", ROUTER_OPTIONS, ids=lambda spec: spec.name)
def test_every_option_takes_its_default_and_its_bounds(spec: Any) -> None:
    for value in [spec.default, spec.minimum, *(spec.choices or [])]:
        if value is not None:
            warmroute.Router(**{spec.name: value})
    if spec.maximum is not None:
        with pytest.raises(errors.ConfigError, match=spec.name):
            warmroute.Router(**{spec.name: spec.maximum + max(1, spec.maximum)})


def test_unknown_workers_are_named(router: warmroute.Router) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: router.remove_worker("w9"),
        lambda: router.drain_worker("w9"),
        lambda: router.set_ready("w9", True),
        lambda: router.update_worker("w9"),
        lambda: router.route(IDS, avoid=["w9"]),
    ]
    for call in calls:
        with pytest.raises(errors.UnknownWorker, match="w9"):
            call()


def test_a_duplicate_or_a_wrong_block_size_is_refused(router: warmroute.Router) -> None:
    with pytest.raises(errors.ConfigError, match="w1"):
        router.add_worker("w1")
    with pytest.raises(errors.ConfigError, match="32"):
        router.add_worker("w3", block_size=32)
    assert [worker.name for worker in router.workers()] == ["w1", "w2"]


def test_a_lease_closes_once(router: warmroute.Router) -> None:
    lease = router.route(IDS, tenant="finance", max_tokens=120)
    assert (lease.url, lease.prompt_tokens, lease.reason) == (
        f"http://10.0.0.{lease.worker[1]}:8000",
        1000,
        "cold",
    )
    assert lease.predicted_ttft > 0
    with pytest.raises(errors.InvalidRequest, match="done"):
        lease.close("done")  # type: ignore[arg-type]
    lease.first_token()
    lease.progress(12)
    assert lease.close("finished")
    assert not lease.close("failed")
    assert not lease.is_open
    stats = router.stats()
    assert (stats["finished"], stats["failed"], stats["open"]) == (1, 0, 0)


def test_a_dropped_lease_gives_its_load_back_and_is_counted(router: warmroute.Router) -> None:
    lease = router.route(IDS)
    assert router.stats()["open"] == 1
    del lease
    gc.collect()
    stats = router.stats()
    assert (stats["open"], stats["abandoned"]) == (0, 1)
    assert all(worker["requests"] == 0 and worker["wait_seconds"] == 0 for worker in stats["workers"])


def test_a_block_that_raises_closes_as_failed(router: warmroute.Router) -> None:
    with pytest.raises(RuntimeError), router.route(IDS):
        raise RuntimeError
    with router.route(IDS):
        pass
    with router.route(IDS) as lease:
        lease.close("cancelled")
    stats = router.stats()
    assert (stats["failed"], stats["finished"], stats["cancelled"]) == (1, 1, 1)


@pytest.mark.parametrize("number", [-1, 2**40, 1.5, "7"])
def test_a_number_that_is_none_is_named(router: warmroute.Router, number: Any) -> None:
    lease = router.route(IDS)
    calls: list[Callable[[], Any]] = [
        lambda: router.route(IDS, max_tokens=number),
        lambda: router.add_worker("w3", kv_blocks=number),
        lambda: router.update_worker("w1", dp_rank=number),
        lambda: lease.progress(number),
        lambda: lease.cached_tokens(number),
    ]
    for call in calls:
        with pytest.raises(errors.InvalidRequest, match=str(number)):
            call()
    lease.close()


def test_a_prompt_given_as_text_stays_out_of_the_error(router: warmroute.Router) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        router.route(["You are a secret prompt"])  # type: ignore[list-item]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("left", [asyncio.CancelledError, GeneratorExit, KeyboardInterrupt])
def test_whoever_leaves_is_not_a_failure(router: warmroute.Router, left: type[BaseException]) -> None:
    with pytest.raises(left), router.route(IDS):
        raise left
    stats = router.stats()
    assert (stats["cancelled"], stats["failed"], stats["open"]) == (1, 0, 0)


def test_an_error_while_leases_are_collected_does_not_block(router: warmroute.Router) -> None:
    """Making an exception may run the garbage collector, which gives back the loads of unreachable leases."""

    class Cycle:
        def __init__(self, lease: warmroute.Lease) -> None:
            self.lease, self.cycle = lease, self

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(50):
            Cycle(router.route(IDS))
            with pytest.raises(errors.UnknownWorker):
                router.route(IDS, avoid=["w9"])
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert router.stats()["open"] == 0


def test_a_worker_that_cannot_be_reached_is_left_alone(router: warmroute.Router) -> None:
    homes = []
    for _ in range(10):
        lease = router.route(IDS)
        homes.append(lease.worker)
        lease.close("unreachable" if lease.worker == homes[0] else "finished")
    assert homes.count(homes[0]) == 3
    refusals = {candidate.worker: candidate.refusal for candidate in router.explain(IDS).candidates}
    assert refusals[homes[0]] == "failing"


def test_model_lora_and_salt_separate_prompts(router: warmroute.Router) -> None:
    router.route(IDS).close()
    assert router.decide(IDS).overlap_tokens == 992
    apart: list[dict[str, Any]] = [{"model": "m"}, {"lora": "l"}, {"cache_salt": "s"}]
    for terms in apart:
        assert router.decide(IDS, **terms).overlap_tokens == 0


def test_a_prompt_without_a_worker_says_why() -> None:
    router = warmroute.Router(max_requests_per_worker=1)
    with pytest.raises(errors.NoEligibleWorker):
        router.route(IDS)
    router.add_worker("w1", models=["m"], max_model_len=2000)
    with pytest.raises(errors.UnknownModel, match="other"):
        router.route(IDS, model="other")
    with pytest.raises(errors.PromptTooLong, match="2000"):
        router.route(range(2000), model="m")
    with router.route(IDS, model="m"), pytest.raises(errors.Saturated) as caught:
        router.route(IDS, model="m")
    assert caught.value.retry_after_s >= 1
    explanation = router.explain(IDS, model="other")
    assert explanation.decision is None
    assert isinstance(explanation.error, errors.UnknownModel)
    assert [candidate.refusal for candidate in explanation.candidates] == ["model"]


def test_threads_share_a_router(router: warmroute.Router) -> None:
    prompts = [np.arange(i * 10**6, i * 10**6 + 20_000, dtype=np.uint32).tobytes() for i in range(8)]
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(200):
                with router.route(prompts[(seed + i) % len(prompts)]) as lease:
                    lease.first_token()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = router.stats()
    assert not failures
    assert (stats["finished"], stats["open"]) == (1600, 0)
