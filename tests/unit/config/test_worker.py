from typing import Any

import pytest

from warmroute.config.worker import worker_from
from warmroute.errors import ConfigError

HALF_A_CHARACTER = "\ud800"


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"url": f"http://{HALF_A_CHARACTER}", "name": "w"}, "worker.url"),
        ({"url": "http://a\0b", "name": "w"}, "worker.url"),
        ({"url": "http://a\r\nb:1"}, "worker.url"),
        ({"url": "http://a b", "name": "w"}, "worker.url"),
        ({"url": "http://a", "models": ["m", HALF_A_CHARACTER]}, "worker.models"),
        ({"url": "http://a", "models": ["m\n"]}, "worker.models"),
        ({"url": "http://a", "kv_events_topic": HALF_A_CHARACTER}, "worker.kv_events_topic"),
        ({"url": "http://a", "kv_events_endpoint": "tcp://a\0"}, "worker.kv_events_endpoint"),
    ],
)
def test_texts_that_cannot_be_told_are_refused(entry: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        worker_from(entry, "worker", "a test")
    assert refused.value.key == key
    str(refused.value).encode()
