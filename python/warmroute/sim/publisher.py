"""Publishes KV event batches as vLLM 0.32 does: a PUB socket for what is new, a ROUTER socket for replays."""

import threading
from types import TracebackType
from typing import Protocol

import zmq

# As vLLM: this many batches wait for a slow subscriber before they are dropped for it.
HIGH_WATER_MARK = 100_000
END = b"\xff" * 8
BATCHES_AT_ONCE = 256
# How long a thread may take to notice that it should end.
WAIT_MS = 100


class EventSource(Protocol):
    """Where batches come from: each is taken once, and replayed while it is still there."""

    def take_events(self, maximum: int, timeout_ms: int, /) -> list[tuple[int, bytes]]:
        """New batches with their numbers; waits for the first."""

    def replay_from(self, number: int, /) -> list[tuple[int, bytes]]:
        """The batches from a number on."""


def binds(endpoint: str) -> bool:
    """Whether a publisher binds the endpoint; it connects to any other, as vLLM's does."""
    return "*" in endpoint or "::" in endpoint or endpoint.startswith(("ipc://", "inproc://"))


class Publisher:
    """Two threads that publish until the publisher is closed."""

    def __init__(self, source: EventSource, endpoint: str, replay_endpoint: str | None, topic: str) -> None:
        """Open the sockets and start; raises `zmq.ZMQError` where an endpoint cannot be had."""
        self._source = source
        self._topic = topic.encode()
        self._context = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        try:
            self._start(endpoint, replay_endpoint)
        except zmq.ZMQError:
            self.close()
            raise

    def _start(self, endpoint: str, replay_endpoint: str | None) -> None:
        events = self._open(zmq.PUB)
        events.set_hwm(HIGH_WATER_MARK)
        if binds(endpoint):
            events.bind(endpoint)
        else:
            events.connect(endpoint)
        runs = [(self._publish, events)]
        if replay_endpoint:
            replay = self._open(zmq.ROUTER)
            replay.bind(replay_endpoint)
            runs.append((self._replay, replay))
        self._threads = [threading.Thread(target=run, args=(socket,), daemon=True) for run, socket in runs]
        for thread in self._threads:
            thread.start()

    def _open(self, kind: int) -> "zmq.Socket[bytes]":
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        return socket

    def __enter__(self) -> "Publisher":
        """The publisher runs already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the sockets."""
        self.close()

    def close(self) -> None:
        """End the threads and close the sockets; what a slow subscriber has not got is lost."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for socket in self._sockets:
            socket.close(linger=0)
        self._context.term()

    def _publish(self, socket: "zmq.Socket[bytes]") -> None:
        while not self._stop.is_set():
            for number, payload in self._source.take_events(BATCHES_AT_ONCE, WAIT_MS):
                socket.send_multipart((self._topic, number.to_bytes(8, "big"), payload))

    def _replay(self, socket: "zmq.Socket[bytes]") -> None:
        while not self._stop.is_set():
            if not socket.poll(WAIT_MS):
                continue
            request = socket.recv_multipart()
            # The client's identity, an empty frame, the first number wanted; anything else is ignored.
            if len(request) != 3 or len(request[2]) != 8:
                continue
            client = request[0]
            for number, payload in self._source.replay_from(int.from_bytes(request[2], "big")):
                socket.send_multipart((client, b"", self._topic, number.to_bytes(8, "big"), payload))
            socket.send_multipart((client, b"", b"", END, b""))
