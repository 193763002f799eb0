"""A reply as it comes."""

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from warmroute.client.faults import error_of
from warmroute.v1 import router_pb2 as pb


class _Reply:
    """What is known of a reply."""

    def __init__(self) -> None:
        self.routed: pb.Routed | None = None
        self.usage: pb.Usage | None = None
        self.finish_reason = ""

    @property
    def worker(self) -> str:
        """The name of the worker that answers; empty before it is known."""
        return self.routed.decision.worker.name if self.routed is not None else ""

    def _take(self, response: pb.GenerateResponse) -> pb.Chunk | None:
        match response.WhichOneof("event"):
            case "routed":
                self.routed = response.routed
            case "chunk":
                self.finish_reason = response.chunk.finish_reason or self.finish_reason
                return response.chunk
            case "finished":
                self.usage = response.finished.usage if response.finished.HasField("usage") else None
        return None


class Generation(_Reply):
    """Chunks of a reply. Leaving the block, or `cancel`, cancels what is not complete."""

    def __init__(self, call: Any, first: pb.GenerateResponse | None) -> None:
        """Take the call, and its first message where it was read."""
        super().__init__()
        self._call = call
        self._first = first

    def __iter__(self) -> Iterator[pb.Chunk]:
        """The chunks, as they come; raises the errors of `warmroute.errors`."""
        first, self._first = self._first, None
        if first is not None and (chunk := self._take(first)) is not None:
            yield chunk
        try:
            for response in self._call:
                if (chunk := self._take(response)) is not None:
                    yield chunk
        except grpc.RpcError as error:
            raise error_of(error) from None

    def text(self) -> str:
        """The whole text, once it is complete."""
        return "".join(chunk.text for chunk in self)

    def cancel(self) -> None:
        """Have the engine abort."""
        self._call.cancel()

    def __enter__(self) -> Self:
        """Nothing: the call runs."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what is not complete."""
        self._call.cancel()


class AsyncGeneration(_Reply):
    """The same for asyncio."""

    def __init__(self, call: Any, first: pb.GenerateResponse | None) -> None:
        """Take the call, and its first message where it was read."""
        super().__init__()
        self._call = call
        self._first = first

    async def __aiter__(self) -> AsyncIterator[pb.Chunk]:
        """The chunks, as they come; raises the errors of `warmroute.errors`."""
        first, self._first = self._first, None
        if first is not None and (chunk := self._take(first)) is not None:
            yield chunk
        try:
            while isinstance(response := await self._call.read(), pb.GenerateResponse):
                if (chunk := self._take(response)) is not None:
                    yield chunk
        except grpc.aio.AioRpcError as error:
            raise error_of(error) from None

    async def text(self) -> str:
        """The whole text, once it is complete."""
        return "".join([chunk.text async for chunk in self])

    def cancel(self) -> None:
        """Have the engine abort."""
        self._call.cancel()

    async def __aenter__(self) -> Self:
        """Nothing: the call runs."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what is not complete."""
        self._call.cancel()
