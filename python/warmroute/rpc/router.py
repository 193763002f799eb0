"""`warmroute.v1.Router`: messages go to the compiled part as bytes, and come back as bytes."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import grpc
import grpc.aio

from warmroute.errors import Draining
from warmroute.native import RpcService, RpcStream
from warmroute.rpc.calls import Calls, Context
from warmroute.rpc.stats import Stats
from warmroute.rpc.upstream import Upstream
from warmroute.v1 import router_pb2

SERVICE = router_pb2.DESCRIPTOR.services_by_name["Router"].full_name

# A longer text is encoded on another thread, where there is a tokenizer: other calls must not wait for it.
ENCODED_HERE_BYTES = 16 << 10


class RouterService:
    """Answers the calls of one server."""

    def __init__(self, service: RpcService, upstream: Upstream, stats: Stats) -> None:
        """Take what decides, what sends requests to workers, and where is counted."""
        self._service = service
        self._upstream = upstream
        self._stats = stats
        self._streams: dict[asyncio.Task[Any], RpcStream] = {}
        self._draining = False

    def handlers(self, calls: Calls) -> grpc.GenericRpcHandler:
        """What gRPC asks for the service's methods."""
        service = self._service
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Route": calls.unary(
                    "Route", service.route, is_long=self._is_long, answer_long=self._route_long
                ),
                "RouteStream": calls.bidirectional("RouteStream", self._route_stream),
                "Report": calls.unary("Report", service.report),
                "Decide": calls.unary("Decide", service.decide),
                "Explain": calls.waiting("Explain", self._explain),
                "Generate": calls.streaming("Generate", self._generate),
            },
        )

    def drain(self) -> None:
        """Take reports only; streams without a reservation end."""
        self._draining = True
        self._service.drain()
        for task, stream in list(self._streams.items()):
            if stream.is_empty:
                task.cancel()

    def _is_long(self, request: bytes) -> bool:
        return len(request) > ENCODED_HERE_BYTES and self._service.takes_long(request, ENCODED_HERE_BYTES)

    async def _route_long(self, request: bytes) -> bytes:
        # Booked only once it is waited for no more: a caller that leaves meanwhile has no reservation.
        asked = await asyncio.to_thread(self._service.read_route, request)
        return self._service.route_read(asked)

    async def _explain(self, request: bytes) -> bytes:
        return await asyncio.to_thread(self._service.explain, request)

    async def _route_stream(self, context: Context) -> None:
        service, stats = self._service, self._stats
        task = asyncio.current_task()
        stream = service.open_stream()
        if task is not None:
            self._streams[task] = stream
        try:
            while (request := await context.read()) is not grpc.aio.EOF:
                stats.messages += 1
                await context.write(await self._answer(stream, request))
                if self._draining and stream.is_empty:
                    raise Draining("the router ends: open a stream to another one")
        except asyncio.CancelledError:
            if not self._draining or context.cancelled():
                raise
            if task is not None:
                task.uncancel()
            raise Draining("the router ends: open a stream to another one") from None
        finally:
            if task is not None:
                del self._streams[task]
            stream.end()

    async def _answer(self, stream: RpcStream, request: bytes) -> bytes:
        if len(request) > ENCODED_HERE_BYTES and self._service.takes_long(
            request, ENCODED_HERE_BYTES, on_stream=True
        ):
            return await asyncio.to_thread(self._service.answer, stream, request)
        return self._service.answer(stream, request)

    async def _generate(self, request: bytes, context: Context) -> None:
        name = uuid.uuid4().hex
        if len(request) > ENCODED_HERE_BYTES:
            generation = await asyncio.to_thread(self._service.generate, request, name)
        else:
            generation = self._service.generate(request, name)
        await self._upstream.generate(generation, context)
