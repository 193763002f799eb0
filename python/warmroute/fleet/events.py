"""Workers' KV events over ZMQ: one thread owns the sockets and hands batches to the mirrors as they come."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

import zmq

from warmroute.errors import UnknownWorker
from warmroute.logs import get

# What a replay ends with, in the place of a number.
END = b"\xff" * 8
# Batches that wait in a socket; more are dropped, and are a gap that is asked for again.
WAITING_BATCHES = 1_000
# Of a replay, which the worker sends all at once and does not send again: twice what vLLM keeps.
WAITING_REPLAYED = 20_000
BATCH_LIMIT_BYTES = 64 << 20
# Batches that are handed over in one call, so that no source holds up the others.
AT_ONCE = 256
IDLE_MS = 1_000

log = get("events")

Batches = Sequence[tuple[bytes, bytes]]


class MirrorPort(Protocol):
    """What a source of events feeds; see `warmroute.native.Mirror`."""

    def catch_up(self) -> int | None:
        """Ask for everything."""

    def take(self, batches: Batches, /) -> int | None:
        """Take published batches."""

    def replayed(self, start: int, batches: Batches, /) -> int | None:
        """Take batches that were asked for."""

    def replay_ended(self, start: int, /) -> int | None:
        """Nothing more comes."""

    def replay_failed(self, start: int, /) -> int | None:
        """Nothing can be had."""

    def restarted(self) -> None:
        """The worker is another process."""

    def stats(self) -> dict[str, Any]:
        """The counters."""

    def confirmed(self) -> dict[str, Any]:
        """What is confirmed, in the engine's own names."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where one worker's events come from.

    With `bind` the worker's publisher connects to `endpoint`, and other workers' may as well: `topic` then
    tells them apart, and must be there.
    """

    endpoint: str
    replay_endpoint: str | None = None
    topic: str = ""
    bind: bool = False


@dataclass(slots=True)
class _Feed:
    """One worker's mirror, and the replay that is under way for it."""

    name: str
    source: Source
    mirror: MirrorPort
    replay: "zmq.Socket[bytes] | None" = None
    asked: int | None = None
    deadline: float = 0.0
    last: float | None = None
    replays: int = 0
    failures: int = 0


@dataclass(slots=True)
class _Inbox:
    """A SUB socket and whom it is for: one worker, or one by topic."""

    socket: "zmq.Socket[bytes]"
    feeds: dict[str, _Feed] = field(default_factory=dict)


class Events:
    """Follows the events of workers until it is closed. Safe to call from any thread.

    Its own thread starts with the first worker: a fleet that publishes nothing needs none.
    """

    def __init__(self, replay_timeout_s: float) -> None:
        """Take how long a replay may stand still."""
        self._replay_timeout_s = replay_timeout_s
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._inboxes: dict[str, _Inbox] = {}
        self._feeds: dict[str, _Feed] = {}
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        address = f"inproc://wake-{id(self)}"
        self._woken = self._context.socket(zmq.PAIR)
        self._woken.bind(address)
        self._wake = self._context.socket(zmq.PAIR)
        self._wake.connect(address)
        self._wake_lock = threading.Lock()
        self._poller.register(self._woken, zmq.POLLIN)
        self._running = True
        self._thread: threading.Thread | None = None

    def add(self, name: str, source: Source, mirror: MirrorPort) -> None:
        """Follow a worker's events; one that is followed already is followed anew."""
        with self._wake_lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="kv-events", daemon=True)
                self._thread.start()
        self._call(lambda: self._add(_Feed(name, source, mirror)))

    def remove(self, name: str) -> None:
        """Stop to follow a worker."""
        self._call(lambda: self._remove(name))

    def restarted(self, name: str) -> None:
        """Tell that the worker is another process than before."""

        def act() -> None:
            if feed := self._feeds.get(name):
                feed.mirror.restarted()
                self._catch_up(feed)

        self._call(act)

    def catch_up(self, name: str) -> None:
        """Ask for everything that the worker can send again."""

        def act() -> None:
            if feed := self._feeds.get(name):
                self._catch_up(feed)

        self._call(act)

    def stats(self) -> dict[str, dict[str, Any]]:
        """Each worker's counters; `age_s` is how long ago its last batch came, `None` before the first."""
        now = time.monotonic()
        return {
            feed.name: {
                **feed.mirror.stats(),
                "replays": feed.replays,
                "replay_failures": feed.failures,
                "catching_up": feed.asked is not None,
                "age_s": None if feed.last is None else now - feed.last,
            }
            for feed in list(self._feeds.values())
        }

    def confirmed(self, name: str) -> dict[str, Any] | None:
        """What is confirmed of a worker, in its engine's own names; `None` where no events are followed."""
        feed = self._feeds.get(name)
        return None if feed is None else feed.mirror.confirmed()

    def catching_up(self) -> list[str]:
        """The workers of which missing batches are asked for."""
        return [feed.name for feed in list(self._feeds.values()) if feed.asked is not None]

    def close(self) -> None:
        """Close the sockets and end the thread."""
        if self._thread is not None:
            if self._thread.is_alive():
                self._call(self._stop)
            self._thread.join()
        self._woken.close(linger=0)
        self._wake.close(linger=0)
        self._context.term()

    def _call(self, act: Callable[[], None]) -> None:
        with self._wake_lock:
            if self._thread is None:
                return
            self._calls.put(act)
            self._wake.send(b"")

    def _stop(self) -> None:
        self._running = False

    def _run(self) -> None:
        while self._running:
            for socket, _ in self._poller.poll(self._patience_ms()):
                self._guard(partial(self._handle, socket))
            self._guard(self._expire)
        for name in list(self._feeds):
            self._remove(name)

    def _guard(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            # One worker's fault must not end the events of all.
            log.exception("events of a worker could not be handled")

    def _patience_ms(self) -> int:
        deadlines = [feed.deadline for feed in self._feeds.values() if feed.asked is not None]
        if not deadlines:
            return IDLE_MS
        return max(0, min(IDLE_MS, int((min(deadlines) - time.monotonic()) * 1000) + 1))

    def _handle(self, socket: Any) -> None:
        if socket is self._woken:
            self._woken.recv()
            self._calls.get()()
            return
        for inbox in self._inboxes.values():
            if inbox.socket is socket:
                self._receive(inbox)
                return
        for feed in self._feeds.values():
            if feed.replay is socket:
                self._receive_replay(feed)
                return

    def _add(self, feed: _Feed) -> None:
        self._remove(feed.name)
        source = feed.source
        inbox = self._inboxes.get(source.endpoint) if source.bind else None
        if inbox is None:
            try:
                inbox = _Inbox(self._subscribe(source))
            except zmq.ZMQError as error:
                log.warning("no KV events: the endpoint cannot be used", worker=feed.name, error=error)
                return
            # A publisher that connects shares its endpoint; one that is connected to has it for itself.
            self._inboxes[source.endpoint if source.bind else f"{feed.name} {source.endpoint}"] = inbox
        inbox.feeds[source.topic if source.bind else ""] = feed
        self._feeds[feed.name] = feed
        self._catch_up(feed)

    def _subscribe(self, source: Source) -> "zmq.Socket[bytes]":
        socket = self._context.socket(zmq.SUB)
        try:
            socket.setsockopt(zmq.RCVHWM, WAITING_BATCHES)
            socket.setsockopt(zmq.MAXMSGSIZE, BATCH_LIMIT_BYTES)
            socket.setsockopt(zmq.RECONNECT_IVL_MAX, IDLE_MS)
            socket.setsockopt(zmq.SUBSCRIBE, b"" if source.bind else source.topic.encode())
            if source.bind:
                socket.bind(source.endpoint)
            else:
                socket.connect(source.endpoint)
        except zmq.ZMQError:
            socket.close(linger=0)
            raise
        self._poller.register(socket, zmq.POLLIN)
        return socket

    def _remove(self, name: str) -> None:
        feed = self._feeds.pop(name, None)
        if feed is None:
            return
        self._close_replay(feed)
        for key, inbox in list(self._inboxes.items()):
            inbox.feeds = {topic: known for topic, known in inbox.feeds.items() if known is not feed}
            if not inbox.feeds:
                self._close(inbox.socket)
                del self._inboxes[key]

    def _receive(self, inbox: _Inbox) -> None:
        batches: dict[str, list[tuple[bytes, bytes]]] = {}
        for _ in range(AT_ONCE):
            try:
                frames = inbox.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if len(frames) == 3:
                topic = frames[0].decode(errors="replace")
                batches.setdefault(topic if topic in inbox.feeds else "", []).append((frames[1], frames[2]))
        for topic, received in batches.items():
            feed = inbox.feeds.get(topic)
            if feed is None:
                log.once("kv-events", "KV events of an unknown topic: set the workers' kv_events_topic")
                continue
            feed.last = time.monotonic()
            self._feed(feed, partial(feed.mirror.take, received))

    def _feed(self, feed: _Feed, act: Callable[[], int | None]) -> None:
        try:
            self._ask(feed, act())
        except UnknownWorker:
            self._remove(feed.name)

    def _catch_up(self, feed: _Feed) -> None:
        """Ask for everything, also where that was asked for: another process may be there by now."""
        self._close_replay(feed)
        self._feed(feed, feed.mirror.catch_up)

    def _ask(self, feed: _Feed, start: int | None) -> None:
        """Ask for what is missing, unless that was asked for already."""
        if start == feed.asked:
            return
        self._close_replay(feed)
        while start is not None and feed.source.replay_endpoint is None:
            start = feed.mirror.replay_failed(start)
        if start is None:
            return
        feed.asked, feed.replays = start, feed.replays + 1
        feed.deadline = time.monotonic() + self._replay_timeout_s
        feed.replay = self._context.socket(zmq.DEALER)
        feed.replay.setsockopt(zmq.RCVHWM, WAITING_REPLAYED)
        feed.replay.setsockopt(zmq.MAXMSGSIZE, BATCH_LIMIT_BYTES)
        feed.replay.connect(feed.source.replay_endpoint or "")
        self._poller.register(feed.replay, zmq.POLLIN)
        feed.replay.send_multipart((b"", start.to_bytes(8, "big")))

    def _receive_replay(self, feed: _Feed) -> None:
        socket, start = feed.replay, feed.asked
        if socket is None or start is None:
            return
        batches: list[tuple[bytes, bytes]] = []
        ended = False
        for _ in range(AT_ONCE):
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            # Empty, perhaps the topic, the number, the payload.
            if len(frames) < 3:
                continue
            if frames[-2] == END:
                ended = True
                break
            batches.append((frames[-2], frames[-1]))
        feed.deadline = time.monotonic() + self._replay_timeout_s
        if batches:
            self._feed(feed, partial(feed.mirror.replayed, start, batches))
        if ended and feed.asked == start:
            self._close_replay(feed)
            self._feed(feed, partial(feed.mirror.replay_ended, start))

    def _expire(self) -> None:
        now = time.monotonic()
        for feed in list(self._feeds.values()):
            start = feed.asked
            if start is None or feed.deadline > now:
                continue
            feed.failures += 1
            log.warning("the worker does not replay its KV events", worker=feed.name, first=start)
            self._close_replay(feed)
            self._feed(feed, partial(feed.mirror.replay_failed, start))

    def _close_replay(self, feed: _Feed) -> None:
        if feed.replay is not None:
            self._close(feed.replay)
        feed.replay = feed.asked = None

    def _close(self, socket: "zmq.Socket[bytes]") -> None:
        self._poller.unregister(socket)
        socket.close(linger=0)
