import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from warmroute.sim.publisher import END, Publisher, binds

TOPIC = "kv@test"


class Source:
    """Batches that a test hands out."""

    def __init__(self) -> None:
        self.new: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self.kept: list[tuple[int, bytes]] = []

    def push(self, payload: bytes) -> None:
        self.kept.append((len(self.kept), payload))
        self.new.put(self.kept[-1])

    def take_events(self, maximum: int, timeout_ms: int, /) -> list[tuple[int, bytes]]:
        try:
            return [self.new.get(timeout=timeout_ms / 1000)]
        except queue.Empty:
            return []

    def replay_from(self, number: int, /) -> list[tuple[int, bytes]]:
        return self.kept[number:]


OpenSocket = Callable[[int], zmq.Socket[bytes]]


@pytest.fixture
def open_socket() -> Iterator[OpenSocket]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sockets = []

    def make(kind: int) -> zmq.Socket[bytes]:
        sockets.append(context.socket(kind))
        return sockets[-1]

    yield make
    for socket in sockets:
        socket.close(linger=0)
    context.term()


def receive(socket: zmq.Socket[bytes]) -> list[bytes]:
    assert socket.poll(10_000), "nothing came"
    return socket.recv_multipart()


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("tcp://*:5557", True),
        ("tcp://[::]:1", True),
        ("ipc:///x", True),
        ("inproc://x", True),
        ("tcp://127.0.0.1:1", False),
    ],
)
def test_endpoints_are_bound_as_vllm_binds_them(endpoint: str, expected: bool) -> None:
    assert binds(endpoint) is expected


def test_new_batches_are_published(open_socket: OpenSocket) -> None:
    source = Source()
    # The publisher connects to this address, as vLLM's does to one without a star.
    subscriber = open_socket(zmq.SUB)
    subscriber.subscribe(TOPIC)
    port = subscriber.bind_to_random_port("tcp://127.0.0.1")
    with Publisher(source, f"tcp://127.0.0.1:{port}", None, TOPIC):
        # What is published before the subscription has arrived is lost.
        while not subscriber.poll(10):
            source.push(b"early")
        source.push(b"last")
        last = len(source.kept) - 1
        frames = receive(subscriber)
        while frames[1] != last.to_bytes(8, "big"):
            assert frames == [TOPIC.encode(), frames[1], b"early"]
            frames = receive(subscriber)
        assert frames == [TOPIC.encode(), last.to_bytes(8, "big"), b"last"]


def test_batches_are_replayed_from_a_number_on(tmp_path: Path, open_socket: OpenSocket) -> None:
    source = Source()
    for payload in (b"a", b"b", b"c"):
        source.push(payload)
    replay = f"ipc://{tmp_path}/replay"
    with Publisher(source, f"ipc://{tmp_path}/events", replay, TOPIC):
        client = open_socket(zmq.DEALER)
        client.connect(replay)
        # Without the empty frame, or with a short number, the request is no request.
        client.send_multipart([(1).to_bytes(8, "big")])
        client.send_multipart([b"", b"\1"])
        client.send_multipart([b"", (1).to_bytes(8, "big")])
        assert receive(client) == [b"", TOPIC.encode(), (1).to_bytes(8, "big"), b"b"]
        assert receive(client) == [b"", TOPIC.encode(), (2).to_bytes(8, "big"), b"c"]
        assert receive(client) == [b"", b"", END, b""]
        client.send_multipart([b"", (99).to_bytes(8, "big")])
        assert receive(client) == [b"", b"", END, b""]


def test_an_endpoint_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(zmq.ZMQError):
        Publisher(Source(), f"ipc://{tmp_path}/none/events", None, TOPIC)
