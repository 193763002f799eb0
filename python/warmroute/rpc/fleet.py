"""`warmroute.v1.Fleet`: who is in the fleet, and who comes and goes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from warmroute.config import WorkerOptions
from warmroute.config.worker import worker_from
from warmroute.errors import ConfigError, Draining, InvalidRequest
from warmroute.rpc.calls import Calls, Context
from warmroute.v1 import fleet_pb2

SERVICE = fleet_pb2.DESCRIPTOR.services_by_name["Fleet"].full_name

_STATES = {
    "ready": fleet_pb2.WORKER_STATE_READY,
    "down": fleet_pb2.WORKER_STATE_DOWN,
    "draining": fleet_pb2.WORKER_STATE_DRAINING,
}
_OPTIONAL = ("kv_blocks", "block_size", "max_model_len", "max_requests")
_LOAD = (
    "requests",
    "prefilling",
    "queued_tokens",
    "context_tokens",
    "active_blocks",
    "wait_seconds",
    "confirmed_blocks",
    "predicted_blocks",
)


M = TypeVar("M", bound=Message)


class Entry(Protocol):
    """A worker at one moment; what is `None` or empty is not known. See `warmroute.fleet.WorkerEntry`."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def url(self) -> str: ...  # noqa: D102
    @property
    def state(self) -> str: ...  # noqa: D102
    @property
    def models(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def adapters(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def kv_blocks(self) -> int | None: ...  # noqa: D102
    @property
    def block_size(self) -> int | None: ...  # noqa: D102
    @property
    def max_model_len(self) -> int | None: ...  # noqa: D102
    @property
    def max_requests(self) -> int | None: ...  # noqa: D102
    @property
    def dp_rank(self) -> int | None: ...  # noqa: D102
    @property
    def load(self) -> Mapping[str, Any]: ...  # noqa: D102


class OperatorPort(Protocol):
    """What lists and changes the fleet; see `warmroute.fleet.Operator`."""

    def workers(self) -> Sequence[Entry]:
        """Every worker, by name."""

    def add(self, worker: WorkerOptions) -> Entry:
        """Take a worker in; raise `WorkerConflict` or `ConfigError` where it cannot be."""

    def drain(self, name: str) -> Entry:
        """Give a worker nothing more; raise `UnknownWorker`."""

    def remove(self, name: str) -> None:
        """Forget a worker; raise `UnknownWorker` or `WorkerConflict`."""

    def watch(self) -> AsyncIterator[Mapping[str, Entry | None]]:
        """Every worker first, then what changed, by name; `None` for one that has left."""


class FleetService:
    """Answers the calls of one server."""

    def __init__(self, operator: OperatorPort) -> None:
        """Take what lists and changes the fleet."""
        self._operator = operator
        self._watchers: set[asyncio.Task[Any]] = set()
        self._draining = False

    def drain(self) -> None:
        """End what watches: it would never end by itself."""
        self._draining = True
        for task in list(self._watchers):
            task.cancel()

    def handlers(self, calls: Calls, changes: Calls) -> grpc.GenericRpcHandler:
        """What gRPC asks for the methods; `changes` are the calls of those who may change the fleet."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "ListWorkers": calls.unary("ListWorkers", self._list),
                "AddWorker": changes.unary("AddWorker", self._add),
                "DrainWorker": changes.unary("DrainWorker", self._drain),
                "RemoveWorker": changes.unary("RemoveWorker", self._remove),
                "WatchWorkers": calls.streaming("WatchWorkers", self._watch),
            },
        )

    def _list(self, _request: bytes) -> bytes:
        workers = [_worker(entry, load=True) for entry in self._operator.workers()]
        return fleet_pb2.ListWorkersResponse(workers=workers).SerializeToString()

    def _add(self, data: bytes) -> bytes:
        request = _read(fleet_pb2.AddWorkerRequest, data)
        try:
            entry = self._operator.add(_options(request))
        except ConfigError as error:
            raise InvalidRequest(str(error), error.key.rpartition(".")[2]) from None
        return fleet_pb2.AddWorkerResponse(worker=_worker(entry, load=True)).SerializeToString()

    def _drain(self, data: bytes) -> bytes:
        entry = self._operator.drain(_read(fleet_pb2.DrainWorkerRequest, data).name)
        return fleet_pb2.DrainWorkerResponse(worker=_worker(entry, load=True)).SerializeToString()

    def _remove(self, data: bytes) -> bytes:
        self._operator.remove(_read(fleet_pb2.RemoveWorkerRequest, data).name)
        return fleet_pb2.RemoveWorkerResponse().SerializeToString()

    async def _watch(self, _request: bytes, context: Context) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._watchers.add(task)
            task.add_done_callback(self._watchers.discard)
        try:
            await self._tell(context)
        except asyncio.CancelledError:
            if not self._draining or context.cancelled():
                raise
            raise Draining("the router ends: watch another one") from None

    async def _tell(self, context: Context) -> None:
        known: dict[str, fleet_pb2.Worker] = {}
        first = True
        async with contextlib.aclosing(self._operator.watch()) as changes:  # type: ignore[type-var]
            async for changed in changes:
                workers = {name: _worker(entry) for name, entry in changed.items() if entry is not None}
                if first:
                    first = False
                    whole = fleet_pb2.WorkerList(workers=[workers[name] for name in sorted(workers)])
                    events = [fleet_pb2.WatchWorkersResponse(workers=whole)]
                else:
                    events = _events(known, changed, workers)
                for event in events:
                    await context.write(event.SerializeToString())
                known.update(workers)


def _events(
    known: dict[str, fleet_pb2.Worker],
    changed: Mapping[str, Entry | None],
    workers: Mapping[str, fleet_pb2.Worker],
) -> list[fleet_pb2.WatchWorkersResponse]:
    """What a watcher is told: workers that left, and those of which something is new."""
    left = [name for name, entry in changed.items() if entry is None and known.pop(name, None) is not None]
    new = [worker for name, worker in workers.items() if known.get(name) != worker]
    return [
        *(fleet_pb2.WatchWorkersResponse(removed=name) for name in left),
        *(fleet_pb2.WatchWorkersResponse(changed=worker) for worker in new),
    ]


def _worker(entry: Entry, *, load: bool = False) -> fleet_pb2.Worker:
    worker = fleet_pb2.Worker(
        name=entry.name,
        url=entry.url,
        state=_STATES[entry.state],
        models=entry.models,
        adapters=entry.adapters,
        data_parallel_rank=entry.dp_rank,
        **{name: getattr(entry, name) for name in _OPTIONAL},
    )
    if load:
        told = {name: entry.load[name] for name in _LOAD if name in entry.load}
        worker.load.CopyFrom(fleet_pb2.WorkerLoad(**told))
    return worker


def _options(request: fleet_pb2.AddWorkerRequest) -> WorkerOptions:
    if not request.url:
        raise InvalidRequest("there is no URL: set url to http://HOST:PORT", "url")
    entry: dict[str, Any] = {"url": request.url, "models": tuple(request.models)}
    if request.name:
        entry["name"] = request.name
    entry |= {name: getattr(request, name) for name in _OPTIONAL if request.HasField(name)}
    if request.HasField("data_parallel_rank"):
        entry["dp_rank"] = request.data_parallel_rank
    try:
        return worker_from(entry, "worker", "AddWorker")
    except ConfigError as error:
        field = error.key.removeprefix("worker.").replace("dp_rank", "data_parallel_rank")
        raise InvalidRequest(str(error), field) from None


def _read(kind: type[M], data: bytes) -> M:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidRequest(f"the message cannot be read: {error}") from None
