"""What a vLLM worker holds, by its KV events: read beside the router, with nothing of the router's.

One thread a worker listens to the publisher and asks the replay socket where numbers are missing. Blocks
are counted, as an engine may hold one several times; a lower number, or the word that the cache is empty,
ends all counts.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import msgpack
import zmq

END = b"\xff" * 8
REPLAY_SECONDS = 10.0


class Capture:
    """The blocks of one worker, from its first event on."""

    def __init__(self, endpoint: str, replay_endpoint: str) -> None:
        self._endpoint, self._replay_endpoint = endpoint, replay_endpoint
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._lock = threading.Lock()
        self._copies: Counter[int] = Counter()
        self._next = 0
        self._made = 0.0
        self._running = True
        self.batches = 0
        self.stored = 0
        self.removed = 0
        self.copies = 0
        """Blocks that were stored while the worker had them already."""
        self.cleared = 0
        self.cleared_at = 0.0
        """When the worker said last that it is empty, on the monotonic clock."""
        self.restarts = 0
        self.faults: list[str] = []
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._running = False
        self._thread.join()
        self._context.destroy(linger=0)

    def held(self) -> tuple[int, set[int]]:
        """The number of the batch that comes next, and the names of the blocks that the worker has."""
        with self._lock:
            return self._next, set(self._copies)

    def catch_up(self) -> None:
        """Asks the worker for whatever was published and has not come; it must answer."""
        with self._lock:
            self._replay()

    def _run(self) -> None:
        socket = self._context.socket(zmq.SUB)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.connect(self._endpoint)
        while self._running:
            if socket.poll(50):
                _topic, number, payload = socket.recv_multipart()
                with self._lock:
                    self._take(int.from_bytes(number, "big"), payload)
        socket.close(linger=0)

    def _take(self, number: int, payload: bytes) -> None:
        batch = msgpack.unpackb(payload)
        if number < self._next:
            # Published before it was replayed, or by a process that began later.
            if batch[0] <= self._made:
                return
            self._copies.clear()
            self._next = 0
            self.restarts += 1
        if number > self._next:
            self._replay(before=number)
        if number != self._next:
            self.faults.append(f"batches {self._next} to {number} cannot be had")
        self._apply(number, batch)

    def _replay(self, before: int | None = None) -> None:
        """Asks until nothing more comes: an engine drops what its socket does not take."""
        while True:
            start = self._next
            answered = self._ask(before)
            if self._next == start:
                break
        if not answered:
            self.faults.append("the worker does not replay")

    def _ask(self, before: int | None) -> bool:
        """Applies what an answer brings next, and says whether it has come to its end."""
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.connect(self._replay_endpoint)
        socket.send_multipart([b"", self._next.to_bytes(8, "big")])
        deadline = time.monotonic() + REPLAY_SECONDS
        answered = False
        while not answered and socket.poll(max(0, int((deadline - time.monotonic()) * 1000))):
            frames = socket.recv_multipart()
            answered = frames[-2] == END
            number = int.from_bytes(frames[-2], "big")
            if not answered and number == self._next and (before is None or number < before):
                self._apply(number, msgpack.unpackb(frames[-1]))
        socket.close(linger=0)
        return answered

    def _apply(self, number: int, batch: list[Any]) -> None:
        self._made, events = batch[0], batch[1]
        for event in events:
            if event["type"] == "AllBlocksCleared":
                self._copies.clear()
                self.cleared += 1
                self.cleared_at = time.monotonic()
                continue
            if event.get("medium") != "GPU" or event.get("group_idx", 0) != 0:
                self.faults.append(f"an event that is not followed: {event}")
                continue
            for name in event["block_hashes"]:
                if event["type"] == "BlockStored":
                    self.copies += name in self._copies
                    self._copies[name] += 1
                    self.stored += 1
                else:
                    self._copies[name] -= 1
                    self.removed += 1
                    if self._copies[name] <= 0:
                        del self._copies[name]
        self._next = number + 1
        self.batches += 1
