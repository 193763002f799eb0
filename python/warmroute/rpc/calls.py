"""What every call goes through: keys, the bound of open calls, deadlines, statuses, counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import grpc
import grpc.aio

from warmroute.errors import DeadlineExceeded, TooManyCalls, WarmrouteError
from warmroute.logs import get
from warmroute.rpc.keys import Keys
from warmroute.rpc.stats import Stats
from warmroute.rpc.status import code_of, trailer_of

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Unary = Callable[[bytes], bytes]
UnaryAsync = Callable[[bytes], Awaitable[bytes]]
Streaming = Callable[[bytes, Context], Awaitable[None]]
Bidirectional = Callable[[Context], Awaitable[None]]

T = TypeVar("T")

log = get("grpc")


class Calls:
    """Makes gRPC handlers of what answers messages."""

    def __init__(self, keys: Keys, max_calls: int, stats: Stats) -> None:
        """Take the keys, how many calls may be open, and where calls are counted."""
        self._keys = keys
        self._max_calls = max_calls
        self._stats = stats

    def unary(
        self,
        method: str,
        answer: Unary,
        *,
        is_long: Callable[[bytes], bool] | None = None,
        answer_long: UnaryAsync | None = None,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler of one message with one answer: there at once, or waited for where it is long."""
        stats = self._stats

        async def handle(request: bytes, context: Context) -> bytes:
            if answer_long is not None and is_long is not None and is_long(request):
                return await self._run(method, context, lambda: answer_long(request))
            # As `_run`, without the coroutine more that waiting takes: this is the way of `Route`.
            stats.enter()
            try:
                self._admit(context)
                reply = answer(request)
            except Exception as error:
                await self._refuse(method, context, error)
            finally:
                stats.leave()
            stats.calls[method, "OK"] += 1
            return reply

        return grpc.unary_unary_rpc_method_handler(handle)

    def waiting(self, method: str, answer: UnaryAsync) -> grpc.RpcMethodHandler[Any, Any]:
        """The same for an answer that is waited for."""

        async def handle(request: bytes, context: Context) -> bytes:
            return await self._run(method, context, lambda: answer(request))

        return grpc.unary_unary_rpc_method_handler(handle)

    def streaming(self, method: str, answer: Streaming) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler of one message that writes many."""

        async def handle(request: bytes, context: Context) -> None:
            await self._run(method, context, lambda: answer(request, context))

        return grpc.unary_stream_rpc_method_handler(handle)

    def bidirectional(self, method: str, answer: Bidirectional) -> grpc.RpcMethodHandler[Any, Any]:
        """A handler that reads and writes."""

        async def handle(_requests: AsyncIterator[bytes], context: Context) -> None:
            await self._run(method, context, lambda: answer(context))

        return grpc.stream_stream_rpc_method_handler(handle)

    async def _run(self, method: str, context: Context, answer: Callable[[], Awaitable[T]]) -> T:
        self._stats.enter()
        try:
            self._admit(context)
            reply = await answer()
        except asyncio.CancelledError:
            self._stats.calls[method, "CANCELLED"] += 1
            raise
        except Exception as error:
            await self._refuse(method, context, error)
        finally:
            self._stats.leave()
        self._stats.calls[method, "OK"] += 1
        return reply

    def _admit(self, context: Context) -> None:
        if self._keys:
            self._keys.check(context.invocation_metadata())
        if self._stats.open > self._max_calls:
            raise TooManyCalls(f"{self._max_calls} calls are open, as many as may be")
        left = cast(float | None, context.time_remaining())
        if left is not None and left <= 0:
            raise DeadlineExceeded("the deadline passed before the call was answered")

    async def _refuse(self, method: str, context: Context, error: Exception) -> NoReturn:
        """End a call with the status of an error."""
        if not isinstance(error, WarmrouteError):
            log.error("a call failed", method=method, exc_info=error)
            error = WarmrouteError("internal error")
        code = code_of(error)
        self._stats.calls[method, code.name] += 1
        await context.abort(code, str(error), (trailer_of(error),))
