"""The source of KV events against real sockets, with a mirror that notes what it is given."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from tests.support.waiting import wait_until
from warmroute.errors import UnknownWorker
from warmroute.fleet.events import END, Batches, Events, Source

TOPIC = "kv@w"


class Noted:
    """A mirror that wants every number once and in order, and notes what happened."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.next = 0
        self.behind: int | None = None
        self.calls: list[tuple[Any, ...]] = []
        self.gone = False

    def note(self, *call: Any) -> None:
        with self.lock:
            self.calls.append(call)

    def catch_up(self) -> int | None:
        self.note("catch_up")
        self.behind = self.next
        return self.behind

    def take(self, batches: Batches) -> int | None:
        if self.gone:
            raise UnknownWorker("w")
        for frame, payload in batches:
            number = int.from_bytes(frame, "big")
            self.note("take", number, payload)
            if self.behind is None and number > self.next:
                self.behind = self.next
            elif number == self.next and self.behind is None:
                self.next += 1
        return self.behind

    def replayed(self, start: int, batches: Batches) -> int | None:
        for frame, payload in batches:
            self.note("replayed", start, int.from_bytes(frame, "big"), payload)
            self.next = int.from_bytes(frame, "big") + 1
        return self.behind

    def replay_ended(self, start: int) -> int | None:
        self.note("ended", start)
        self.behind = None
        return None

    def replay_failed(self, start: int) -> int | None:
        self.note("failed", start)
        self.behind = None
        return None

    def restarted(self) -> None:
        self.note("restarted")
        self.next = 0

    def stats(self) -> dict[str, Any]:
        return {"next": self.next}

    def confirmed(self) -> dict[str, Any]:
        return {"next": self.next, "names": [7]}

    def has(self, *call: Any) -> Callable[[], bool]:
        return lambda: call in self.calls


class Worker:
    """A publisher whose batches a test sends or withholds, and which replays those that it keeps."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", folder: Path, bind: bool = True) -> None:
        self.endpoint = f"ipc://{folder}/events"
        self.replay_endpoint = f"ipc://{folder}/replay"
        self.sent = context.socket(zmq.PUB)
        if bind:
            self.sent.bind(self.endpoint)
        else:
            self.sent.connect(self.endpoint)
        self.asked = context.socket(zmq.ROUTER)
        self.asked.bind(self.replay_endpoint)
        self.kept: dict[int, bytes] = {}
        self.topic = TOPIC.encode()

    def publish(self, number: int, payload: bytes = b"x") -> None:
        self.sent.send_multipart([self.topic, number.to_bytes(8, "big"), payload])

    def question(self) -> tuple[bytes, int]:
        assert self.asked.poll(10_000), "nobody asked"
        client, empty, number = self.asked.recv_multipart()
        assert empty == b""
        return client, int.from_bytes(number, "big")

    def answer(self, with_topic: bool = True) -> int:
        """Answer the next question, as vLLM from 0.27 on or as those before; return the number asked for."""
        client, start = self.question()
        topic = [self.topic] if with_topic else []
        for number, payload in self.kept.items():
            if number >= start:
                self.asked.send_multipart([client, b"", *topic, number.to_bytes(8, "big"), payload])
        self.asked.send_multipart([client, b"", *([b""] if with_topic else []), END, b""])
        return start

    def close(self) -> None:
        self.sent.close(linger=0)
        self.asked.close(linger=0)


@pytest.fixture
def context() -> Iterator["zmq.Context[zmq.Socket[bytes]]"]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.term()


@pytest.fixture
def worker(context: "zmq.Context[zmq.Socket[bytes]]", tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(context, tmp_path)
    yield worker
    worker.close()


@pytest.fixture
def events() -> Iterator[Events]:
    events = Events(replay_timeout_s=5)
    yield events
    events.close()


def follow(events: Events, worker: Worker, mirror: Noted, replay: bool = True) -> None:
    events.add("w", Source(worker.endpoint, worker.replay_endpoint if replay else None), mirror)


def publish_until(worker: Worker, number: int, seen: Callable[[], bool]) -> None:
    """Publish a batch until it has arrived: what is sent before the subscription is lost."""

    def sent() -> bool:
        worker.publish(number)
        return seen()

    wait_until(sent)


@pytest.mark.parametrize("with_topic", [True, False])
def test_what_was_published_before_is_asked_for(events: Events, worker: Worker, with_topic: bool) -> None:
    mirror = Noted()
    worker.kept = {0: b"a", 1: b"b"}
    follow(events, worker, mirror)
    assert worker.answer(with_topic) == 0
    wait_until(mirror.has("ended", 0))
    assert mirror.calls == [("catch_up",), ("replayed", 0, 0, b"a"), ("replayed", 0, 1, b"b"), ("ended", 0)]
    publish_until(worker, 2, mirror.has("take", 2, b"x"))
    assert events.stats()["w"]["replays"] == 1
    assert events.stats()["w"]["age_s"] < 10
    assert events.confirmed("w") == mirror.confirmed()
    assert events.confirmed("another") is None


def test_no_thread_runs_before_there_is_a_worker(worker: Worker) -> None:
    def threads() -> int:
        return [thread.name for thread in threading.enumerate()].count("kv-events")

    before = threads()
    idle = Events(1.0)
    idle.remove("nobody")
    assert threads() == before
    idle.close()
    started = Events(1.0)
    started.add("w", Source(worker.endpoint), Noted())
    assert threads() == before + 1
    started.close()
    assert threads() == before


def test_a_gap_is_asked_for_once(events: Events, worker: Worker) -> None:
    mirror = Noted()
    follow(events, worker, mirror)
    assert worker.answer() == 0
    publish_until(worker, 5, mirror.has("take", 5, b"x"))
    worker.publish(6)
    worker.kept = dict.fromkeys(range(7), b"k")
    assert worker.answer() == 0
    wait_until(mirror.has("replayed", 0, 6, b"k"))
    wait_until(lambda: mirror.calls.count(("ended", 0)) == 2)
    assert events.stats()["w"]["replays"] == 2
    assert not worker.asked.poll(50)


def test_a_worker_that_does_not_replay_is_given_up(worker: Worker) -> None:
    events, mirror = Events(replay_timeout_s=0.05), Noted()
    try:
        follow(events, worker, mirror)
        assert worker.question()[1] == 0
        wait_until(mirror.has("failed", 0))
        stats = events.stats()["w"]
        assert (stats["replay_failures"], stats["catching_up"]) == (1, False)
    finally:
        events.close()


def test_without_a_replay_endpoint_what_is_missing_is_lost_at_once(events: Events, worker: Worker) -> None:
    mirror = Noted()
    follow(events, worker, mirror, replay=False)
    wait_until(mirror.has("failed", 0))
    publish_until(worker, 3, lambda: mirror.calls.count(("failed", 0)) >= 2)


def test_an_answer_to_an_older_question_does_not_count(events: Events, worker: Worker) -> None:
    mirror = Noted()
    follow(events, worker, mirror)
    late, _ = worker.question()
    mirror.next = 3
    events.restarted("w")
    events.catch_up("w")
    wait_until(lambda: mirror.calls.count(("catch_up",)) == 3)
    worker.asked.send_multipart([late, b"", b"", END, b""])
    assert worker.answer() == 0
    wait_until(mirror.has("ended", 0))


def test_publishers_that_connect_share_an_endpoint_and_are_told_apart(
    events: Events, context: "zmq.Context[zmq.Socket[bytes]]", tmp_path: Path
) -> None:
    endpoint = f"ipc://{tmp_path}/events"
    mirrors = {"a": Noted(), "b": Noted()}
    for name, mirror in mirrors.items():
        events.add(name, Source(endpoint, topic=f"kv@{name}", bind=True), mirror)
    wait_until(lambda: set(events.stats()) == {"a", "b"})
    (tmp_path / "a").mkdir()
    publisher = Worker(context, tmp_path / "a", bind=False)
    publisher.sent.connect(endpoint)
    try:
        for name, mirror in mirrors.items():
            publisher.topic = f"kv@{name}".encode()
            publish_until(publisher, 0, mirror.has("take", 0, b"x"))
        publisher.topic = b"kv@unknown"
        publisher.publish(7)
        events.remove("b")
        publisher.topic = b"kv@a"
        publish_until(publisher, 1, mirrors["a"].has("take", 1, b"x"))
        assert ("take", 7, b"x") not in mirrors["a"].calls + mirrors["b"].calls
        assert set(events.stats()) == {"a"}
    finally:
        publisher.close()


def test_a_worker_that_has_left_the_router_is_not_followed(events: Events, worker: Worker) -> None:
    mirror = Noted()
    follow(events, worker, mirror)
    worker.answer()
    mirror.gone = True
    publish_until(worker, 0, lambda: not events.stats())


def test_what_is_no_batch_is_passed_over(events: Events, worker: Worker) -> None:
    mirror = Noted()
    follow(events, worker, mirror)
    worker.answer()
    publish_until(worker, 0, mirror.has("take", 0, b"x"))
    worker.sent.send_multipart([b"kv", b"short"])
    worker.sent.send(b"")
    publish_until(worker, 1, mirror.has("take", 1, b"x"))


def test_a_fault_of_one_mirror_does_not_end_the_events_of_others(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Noted):
        def replay_failed(self, start: int) -> int | None:
            raise RuntimeError("broken")

        def take(self, batches: Batches) -> int | None:
            raise RuntimeError("broken")

    events, mirror = Events(replay_timeout_s=0.05), Noted()
    try:
        events.add("broken", Source(worker.endpoint, worker.replay_endpoint), Broken())
        events.add("w", Source(worker.endpoint, worker.replay_endpoint), mirror)
        wait_until(mirror.has("failed", 0))
        publish_until(worker, 0, mirror.has("take", 0, b"x"))
        assert "could not be handled" in caplog.text
    finally:
        events.close()


def test_an_endpoint_that_cannot_be_used_is_said(events: Events, caplog: pytest.LogCaptureFixture) -> None:
    events.add("w", Source("nowhere"), Noted())
    wait_until(lambda: "endpoint cannot be used" in caplog.text)
    assert events.stats() == {}
