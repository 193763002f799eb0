from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from warmroute.metrics import ROWS, Metrics, ModelRung, Row, Snapshot
from warmroute.metrics.read import LOSSES, MODELS
from warmroute.tasks import KINDS

WORKER = {
    "name": "w1",
    "state": "ready",
    "requests": 3,
    "prefilling": 1,
    "other_requests": 3,
    "queued_tokens": 500,
    "context_tokens": 90_000,
    "active_blocks": 6_000,
    "wait_seconds": 0.25,
    "ttft_scale": 1.5,
    "confirmed_blocks": 10,
    "predicted_blocks": 20,
    "lower_blocks": 30,
    "following": True,
    "suspect": False,
    "errors": [0, 3, 5],
    "lost_tokens": {**dict.fromkeys(LOSSES, 0), "evicted": 7},
}
ROUTER: dict[str, Any] = {
    "error_bounds": [-1, 0],
    "decisions": {"warm": 7, "cold": 0},
    "prompt_tokens": 1000,
    "overlap_tokens": 900,
    "lower_tokens": 40,
    "unknown_model": 1,
    "prompt_too_long": 0,
    "no_eligible_worker": 0,
    "saturated": 2,
    "finished": 5,
    "failed": 0,
    "cancelled": 1,
    "abandoned": 0,
    "reported": 4,
    "reported_prompt_tokens": 400,
    "reported_cached_tokens": 300,
    "reported_overlap_tokens": 320,
    "open": 1,
    "index": {
        "bytes": 4096,
        "max_bytes": 8192,
        "nodes": 1,
        "blocks": 2,
        "pairs": 3,
        "confirmed": 1,
        "predicted": 2,
        "lower": 1,
        "evicted_blocks": 0,
        "cut_blocks": 0,
        "expired_blocks": 0,
        "capacity_dropped": 0,
    },
    "workers": [WORKER, {**WORKER, "name": "w2", "state": "down"}],
}


SEEN = {
    "chats": 8,
    "full_by_template": 2,
    "full_by_request": 1,
    "known_raw_bytes": 900,
    "read_raw_bytes": 100,
    "known_text_bytes": 800,
    "encoded_text_bytes": 90,
    "bytes": 5000,
    "evicted": 3,
}
TIMES = {"bounds": [0.1, 1.0], "counts": [1, 0, 0], "sum_seconds": 0.05}
PROXY: dict[str, Any] = {
    "requests": {"chat_completions": {"2xx": 5, "4xx": 1}, "control": {"2xx": 9}},
    "prompts": {"local": 5, "text": 0},
    "inexact": {"media": 4},
    "asked": {"answered": 2},
    "worker_tokens_bytes": 77,
    "departures": {"stream": 1},
    "retries": {"connect": 2},
    "refusals": {"saturated": 3},
    "ttft": TIMES,
    "duration": TIMES,
    "decision": TIMES,
    "retries_denied": 0,
    "encoded_elsewhere": 0,
    "stale_connections": 0,
    "bytes_received": 10,
    "bytes_sent": 20,
    "connections": 2,
    "connections_open": 1,
    "requests_open": 1,
    "worker_connects": 1,
    "worker_connect_failures": 0,
    "worker_reuses": 5,
    "timeouts": 0,
}


def scrape(router: dict[str, Any] = ROUTER, *, approximate: bool = False) -> dict[tuple[str, str], float]:
    """Every sample of the page by name and label value."""
    models = [
        ModelRung(f"m{number:02}", prompts, "local", "verified")
        for number in range(MODELS + 5)
        for prompts in ("texts", "chats")
    ]
    tasks: dict[str, int] = dict.fromkeys(KINDS, 0)
    snapshot = Snapshot(router, PROXY, "1.2.3", approximate, False, models, seen=SEEN, tasks=tasks)
    page = Metrics(lambda: snapshot).render().decode()
    return {
        (sample.name, ",".join(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_the_page_says_what_the_router_counts() -> None:
    page = scrape()
    assert page["warmroute_info", "1.2.3"] == 1
    assert page["warmroute_decisions_total", "warm"] == 7
    assert page["warmroute_decisions_total", "cold"] == 0
    assert page["warmroute_refusals_total", "saturated"] == 2
    assert page["warmroute_reported_cached_tokens_total", ""] == 300
    assert page["warmroute_worker_wait_seconds", "w2"] == 0.25
    assert (page["warmroute_worker_ready", "w1"], page["warmroute_worker_ready", "w2"]) == (1, 0)
    assert {state: page["warmroute_workers", state] for state in ("ready", "down", "draining")} == {
        "ready": 1,
        "down": 1,
        "draining": 0,
    }
    assert page["warmroute_requests_total", "2xx,chat_completions"] == 5
    assert page["warmroute_ttft_seconds_count", ""] == 1
    assert page["process_start_time_seconds", ""] > 0
    assert page["warmroute_inexact_prompts_total", "media"] == 4
    assert page["warmroute_worker_tokenizations_total", "answered"] == 2
    assert page["warmroute_prompt_cache_bytes", ""] == 5000
    assert page["warmroute_prompt_cache_text_bytes_total", "hit"] == 800
    assert page["warmroute_prompt_cache_body_bytes_total", "miss"] == 100
    assert page["warmroute_chats_rendered_in_full_total", "template"] == 2
    assert page["warmroute_lost_tokens_total", "evicted"] == 14
    assert page["warmroute_prediction_error_blocks_bucket", "-1.0"] == 0
    assert page["warmroute_prediction_error_blocks_bucket", "0.0"] == 6
    assert page["warmroute_prediction_error_blocks_bucket", "+Inf"] == 16


def test_rungs_are_told_of_a_bounded_number_of_models() -> None:
    page = scrape()
    assert page["warmroute_model_rung", "m00,chats,local"] == 1
    assert page["warmroute_model_tokens", "m00,texts,verified"] == 1
    assert sum(name == "warmroute_model_rung" for name, _ in page) == 2 * MODELS


def test_every_metric_without_a_worker_label_is_there_from_the_start() -> None:
    names = {name for name, _ in scrape({**ROUTER, "workers": []})}
    expected = {row.exposed for row in ROWS if row.labels != ("worker",) and row.kind != "histogram"}
    assert expected <= names


@pytest.mark.parametrize("approximate", [True, False])
def test_approximate_affinity_is_a_gauge(approximate: bool) -> None:
    assert scrape(approximate=approximate)["warmroute_affinity_approximate", ""] == approximate


def test_names_are_unique_and_in_the_namespace() -> None:
    names = [row.exposed for row in ROWS]
    assert len(set(names)) == len(names)
    assert all(
        name.startswith("warmroute_") and row.doc.endswith(".") for name, row in zip(names, ROWS, strict=True)
    )


def test_buckets_of_a_histogram_are_cumulated() -> None:
    value = {"bounds": [0.1, 1.0], "counts": [2, 3, 1], "sum_seconds": 4.5}
    row = Row("warmroute_x_seconds", "histogram", "X.", lambda _: [((), value)])
    samples = {
        (sample.name, sample.labels.get("le", "")): sample.value
        for sample in row.family(Snapshot({}, {}, "", False, False)).samples
    }
    assert samples == {
        ("warmroute_x_seconds_bucket", "0.1"): 2,
        ("warmroute_x_seconds_bucket", "1.0"): 5,
        ("warmroute_x_seconds_bucket", "+Inf"): 6,
        ("warmroute_x_seconds_count", ""): 6,
        ("warmroute_x_seconds_sum", ""): 4.5,
    }


def test_a_page_that_took_long_is_given_again() -> None:
    now, reads = 100.0, 0

    def read() -> Snapshot:
        nonlocal now, reads
        now, reads = now + 0.25, reads + 1
        return Snapshot(ROUTER, PROXY, str(reads), False, False, seen=SEEN)

    metrics = Metrics(read, lambda: now)
    assert b'version="1"' in metrics.render()
    now += 0.9
    assert b'version="1"' in metrics.render()
    now += 0.2
    assert b'version="2"' in metrics.render()


def test_failures_of_tasks_are_told_by_kind() -> None:
    snapshot = Snapshot(
        ROUTER, PROXY, "1", False, False, seen=SEEN, tasks={**dict.fromkeys(KINDS, 0), "look": 3}
    )
    page = Metrics(lambda: snapshot).render().decode()
    assert 'warmroute_task_failures_total{task="look"} 3.0\n' in page
    assert 'warmroute_task_failures_total{task="truth"} 0.0\n' in page
