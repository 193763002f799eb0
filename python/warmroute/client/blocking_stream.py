"""A `RouteStream` for ordinary programs. Its methods may be called from any thread, at the same time."""

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any, Unpack

import grpc

from warmroute.client.faults import error_in, error_of
from warmroute.client.messages import LAST_ANSWERS_S, LEFT, MAX_UNANSWERED, Booked, Prompt, Terms, request_of
from warmroute.client.reservations import Reservation
from warmroute.client.retry import Patience
from warmroute.errors import DeadlineExceeded, RouterUnreachable, WarmrouteError
from warmroute.v1 import router_pb2 as pb

Answer = pb.RouteStreamResponse


class Stream:
    """Decisions and reports over one stream, pipelined.

    A report waits for no answer. Where `MAX_UNANSWERED` messages have none, decisions and reports wait until
    one has: a router that is slow makes its callers slow, and nothing piles up here.
    """

    def __init__(self, start: Callable[[Iterator[pb.RouteStreamRequest]], Any]) -> None:
        """Take what starts the call over an iterator of messages."""
        # Bounded by the slots: a message takes one until it is answered.
        self._outbox: queue.SimpleQueue[pb.RouteStreamRequest | None] = queue.SimpleQueue()
        self._slots = threading.Semaphore(MAX_UNANSWERED)
        self._waiting: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()
        self._next_id = 1
        self._fault: WarmrouteError | None = None
        self._call = start(iter(self._outbox.get, None))
        self._reader = threading.Thread(target=self._read, name="warmroute-stream", daemon=True)
        self._reader.start()

    def route(self, prompt: Prompt, *, timeout_s: float | None = 30.0, **terms: Unpack[Terms]) -> Reservation:
        """Choose a worker and book the load; `terms` are those of `Client.route`."""
        patience = Patience(timeout_s)
        future = self._send(pb.RouteStreamRequest(route=request_of(prompt, **terms)), patience.left())
        if future is None:
            raise _late(timeout_s)
        try:
            answer = future.result(patience.left())
        except BaseException as error:
            # An answer that comes later is not waited for; one that has come is given back.
            if not future.cancel() and future.exception() is None:
                self._leave(future.result())
            if isinstance(error, TimeoutError) and not isinstance(error, WarmrouteError):
                raise _late(timeout_s) from None
            raise
        if answer.HasField("error"):
            raise error_in(answer.error)
        return Reservation(answer.route, self._report)

    def close(self) -> None:
        """Send what is to be sent, then end the stream, and with it its reservations."""
        with self._lock:
            waiting = list(self._waiting.values())
        # The router answers in order: an answer to the last message says that all of them arrived.
        wait(waiting, LAST_ANSWERS_S)
        self._outbox.put(None)
        self._call.cancel()
        self._reader.join()

    def _report(self, _booked: Booked, report: pb.ReportRequest) -> None:
        # Its answer is not waited for: nothing can be done about a reservation that has ended.
        self._send(pb.RouteStreamRequest(report=report))

    def _leave(self, answer: Answer) -> None:
        """End the reservation of a caller who has left: nothing else would before the stream ends."""
        if answer.HasField("route"):
            # Without a slot, which the reader must not wait for: there are no more of these than answers.
            report = pb.ReportRequest(reservation=answer.route.reservation, ended=LEFT)
            with self._lock:
                self._post(pb.RouteStreamRequest(report=report))

    def _send(
        self, message: pb.RouteStreamRequest, timeout_s: float | None = None
    ) -> "Future[Answer] | None":
        """Send a message; gives the answer to come, or `None` where there was no room in time."""
        if not self._slots.acquire(timeout=timeout_s):
            return None
        future: Future[Answer] = Future()
        with self._lock:
            if self._fault is not None:
                self._slots.release()
                raise self._fault
            self._waiting[self._post(message)] = future
        return future

    def _post(self, message: pb.RouteStreamRequest) -> int:
        message.id = self._next_id
        self._next_id += 1
        self._outbox.put(message)
        return message.id

    def _read(self) -> None:
        fault: WarmrouteError = RouterUnreachable("the router ended the stream")
        try:
            for answer in self._call:
                with self._lock:
                    future = self._waiting.pop(answer.id, None)
                if future is not None:
                    self._slots.release()
                if future is not None and future.set_running_or_notify_cancel():
                    future.set_result(answer)
                else:
                    self._leave(answer)
        except grpc.RpcError as error:
            fault = error_of(error)
        with self._lock:
            self._fault = fault
            waiting = list(self._waiting.values())
            self._waiting.clear()
        self._outbox.put(None)
        for future in waiting:
            # Whoever waits for a slot learns of the end, too.
            self._slots.release()
            if future.set_running_or_notify_cancel():
                future.set_exception(fault)


def _late(timeout_s: float | None) -> DeadlineExceeded:
    return DeadlineExceeded(f"the router did not answer within {timeout_s} s", 0.0)
