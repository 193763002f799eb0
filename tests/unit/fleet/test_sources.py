import json

import pytest

from warmroute.config import WorkerOptions
from warmroute.fleet.events import Source
from warmroute.fleet.sources import configured, read_sources


def test_each_rank_has_a_source_at_the_workers_host() -> None:
    document = {
        "0": {
            "endpoint": "tcp://*:5557",
            "replay_endpoint": "tcp://*:5657",
            "topic": "kv",
            "buffer_steps": 9,
        },
        "1": {"endpoint": "tcp://0.0.0.0:5558", "replay_endpoint": None},
    }
    assert read_sources(json.dumps(document), "http://10.0.0.1:8000") == {
        0: Source("tcp://10.0.0.1:5557", "tcp://10.0.0.1:5657", "kv"),
        1: Source("tcp://10.0.0.1:5558", None, ""),
    }
    six = read_sources(json.dumps({"0": {"endpoint": "tcp://[::]:1"}}), "http://[fd00::1]:8000")
    assert six == {0: Source("tcp://[fd00::1]:1")}
    local = {"0": {"endpoint": "ipc:///run/kv", "replay_endpoint": "tcp://127.0.0.1:7"}}
    assert read_sources(json.dumps(local), "http://h:1") == {0: Source("ipc:///run/kv", "tcp://127.0.0.1:7")}


@pytest.mark.parametrize(
    "entry",
    [
        None,
        {},
        {"endpoint": 7},
        {"endpoint": ""},
        {"endpoint": "tcp://router:5557"},
        {"endpoint": "tcp://*:port"},
        {"endpoint": "inproc://x"},
        {"endpoint": "x" * 1000},
    ],
)
def test_what_cannot_be_connected_to_is_left_out(entry: object) -> None:
    assert read_sources(json.dumps({"0": entry, "x": {"endpoint": "tcp://*:1"}}), "http://h:1") == {}


@pytest.mark.parametrize("text", ["", "[]", "7", "[" * 100_000])
def test_what_is_no_object_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_sources(text, "http://h:1")


def test_a_configured_source_is_bound_where_it_has_a_star() -> None:
    assert configured(WorkerOptions(url="http://h:1")) is None
    worker = WorkerOptions(url="http://h:1", kv_events_endpoint="tcp://*:5557", kv_events_topic="kv@w")
    assert configured(worker) == Source("tcp://*:5557", None, "kv@w", bind=True)
