"""A `RouteStream` for ordinary programs. Its methods may be called from any thread, at the same time."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from types import TracebackType
from typing import Any, Self

import grpc

from warmroute.client.faults import error_in, error_of
from warmroute.client.messages import LAST_ANSWERS_S, LEFT, Booked, Outcome, Prompt, outcome_of, request_of
from warmroute.errors import DeadlineExceeded, RouterUnreachable, WarmrouteError
from warmroute.v1 import router_pb2 as pb

Answer = pb.RouteStreamResponse


class StreamReservation(Booked):
    """A booked decision that ends with its stream. As a context manager it reports its end."""

    def __init__(self, response: pb.RouteResponse, report: Callable[[pb.ReportRequest], None]) -> None:
        """Take the answer to a `RouteRequest`, and what reports."""
        super().__init__(response)
        self._report = report

    def first_token(self) -> None:
        """Report the first token: the prefill share of the load goes."""
        self._report(self._first_token())

    def progress(self, output_tokens: int) -> None:
        """Report how many output tokens there are so far."""
        self._report(self._progress(output_tokens))

    def close(self, outcome: Outcome = "finished") -> bool:
        """Report the end; answers `False` where it was reported before."""
        report = self._ended(outcome)
        if report is not None:
            self._report(report)
        return report is not None

    def __enter__(self) -> Self:
        """Nothing: the load is booked."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Report the end, where it was not."""
        self.close(outcome_of(kind))


class Stream:
    """Decisions and reports over one stream, pipelined."""

    def __init__(self, start: Callable[[Iterator[pb.RouteStreamRequest]], Any]) -> None:
        """Take what starts the call over an iterator of messages."""
        self._outbox: queue.SimpleQueue[pb.RouteStreamRequest | None] = queue.SimpleQueue()
        self._waiting: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()
        self._next_id = 1
        self._fault: WarmrouteError | None = None
        self._call = start(iter(self._outbox.get, None))
        self._reader = threading.Thread(target=self._read, name="warmroute-stream", daemon=True)
        self._reader.start()

    def route(self, prompt: Prompt, *, timeout_s: float | None = 30.0, **terms: Any) -> StreamReservation:
        """Choose a worker and book the load; `terms` are those of `Client.route`."""
        future = self._send(pb.RouteStreamRequest(route=request_of(prompt, **terms)))
        try:
            answer = future.result(timeout_s)
        except BaseException as error:
            # An answer that comes later is not waited for; one that has come is given back.
            if not future.cancel() and future.exception() is None:
                self._leave(future.result())
            if isinstance(error, TimeoutError) and not isinstance(error, WarmrouteError):
                raise DeadlineExceeded(f"the router did not answer within {timeout_s} s", 0.0) from None
            raise
        if answer.HasField("error"):
            raise error_in(answer.error)
        return StreamReservation(answer.route, self._report)

    def close(self) -> None:
        """Send what is to be sent, then end the stream, and with it its reservations."""
        with self._lock:
            waiting = list(self._waiting.values())
        # The router answers in order: an answer to the last message says that all of them arrived.
        wait(waiting, LAST_ANSWERS_S)
        self._outbox.put(None)
        self._call.cancel()
        self._reader.join()

    def _report(self, report: pb.ReportRequest) -> None:
        # Not waited for: nothing can be done about an answer that says that the reservation has ended.
        self._send(pb.RouteStreamRequest(report=report))

    def _leave(self, answer: Answer) -> None:
        """End the reservation of a caller who has left: nothing else would before the stream ends."""
        if answer.HasField("route"):
            with contextlib.suppress(WarmrouteError):
                self._report(pb.ReportRequest(reservation=answer.route.reservation, ended=LEFT))

    def _send(self, message: pb.RouteStreamRequest) -> "Future[Answer]":
        future: Future[Answer] = Future()
        with self._lock:
            if self._fault is not None:
                raise self._fault
            message.id = self._next_id
            self._next_id += 1
            self._waiting[message.id] = future
            self._outbox.put(message)
        return future

    def _read(self) -> None:
        fault: WarmrouteError = RouterUnreachable("the router ended the stream")
        try:
            for answer in self._call:
                with self._lock:
                    future = self._waiting.pop(answer.id, None)
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
            if future.set_running_or_notify_cancel():
                future.set_exception(fault)
