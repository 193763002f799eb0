"""What `route` gives: a decision whose load is booked, and its reports."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from warmroute.client.messages import Booked, Outcome, outcome_of
from warmroute.v1 import router_pb2 as pb


class Reservation(Booked):
    """A booked decision. As a context manager it reports its end: `finished`, `failed` or `cancelled`."""

    def __init__(
        self, response: pb.RouteResponse, report: Callable[[Booked, pb.ReportRequest], None]
    ) -> None:
        """Take the answer to a `RouteRequest`, and what reports."""
        super().__init__(response)
        self._report = report

    def first_token(self) -> None:
        """Report the first token: the prefill share of the load goes."""
        self._report(self, self._first_token())

    def progress(self, output_tokens: int) -> None:
        """Report how many output tokens there are so far."""
        self._report(self, self._progress(output_tokens))

    def close(self, outcome: Outcome = "finished") -> bool:
        """Report the end; answers `False` where it was reported before."""
        report = self._ended(outcome)
        if report is not None:
            self._report(self, report)
        return report is not None

    def __enter__(self) -> Self:
        """Nothing: the load is booked."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Report the end, where it was not."""
        self.close(outcome_of(kind))


class AsyncReservation(Booked):
    """The same for asyncio."""

    def __init__(
        self, response: pb.RouteResponse, report: Callable[[Booked, pb.ReportRequest], Awaitable[None]]
    ) -> None:
        """Take the answer to a `RouteRequest`, and what reports."""
        super().__init__(response)
        self._report = report

    async def first_token(self) -> None:
        """Report the first token: the prefill share of the load goes."""
        await self._report(self, self._first_token())

    async def progress(self, output_tokens: int) -> None:
        """Report how many output tokens there are so far."""
        await self._report(self, self._progress(output_tokens))

    async def close(self, outcome: Outcome = "finished") -> bool:
        """Report the end; answers `False` where it was reported before."""
        report = self._ended(outcome)
        if report is not None:
            # A task that is cancelled reports all the same.
            await asyncio.shield(asyncio.ensure_future(self._report(self, report)))
        return report is not None

    async def __aenter__(self) -> Self:
        """Nothing: the load is booked."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Report the end, where it was not."""
        await self.close(outcome_of(kind))
