"""A Kubernetes API server on the loopback interface: lists and watches of what a test puts into it."""

from __future__ import annotations

import asyncio
import functools
import json
from pathlib import Path
from typing import Any

from aiohttp import web

SLICES = "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
PODS = "/api/v1/namespaces/{namespace}/pods"


class Cluster:
    """Objects by kind and name, with the history that watches are served from. An async context manager.

    `refuse` is a status that every request gets. `ends_watches` closes each watch at once; with
    `mutes_watches` they send nothing.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {"slices": {}, "pods": {}}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.version = 1
        self.oldest = 0
        self.refuse: int | None = None
        self.ends_watches = False
        self.mutes_watches = False
        self.lists = 0
        self.watches: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.authorizations: list[str | None] = []
        self.port = 0
        self._changed = asyncio.Condition()
        self._cut = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Cluster:
        app = web.Application()
        app.router.add_get(SLICES, functools.partial(self._answer, "slices", "EndpointSlice"))
        app.router.add_get(PODS, functools.partial(self._answer, "pods", "Pod"))
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self.cut()
        await self._runner.cleanup()

    def kubeconfig(self, path: Path) -> Path:
        """A file for `KUBECONFIG` that leads here."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [
                {"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}
            ],
            "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "test", "user": {"token": "a-token"}}],
        }
        path.write_text(json.dumps(document))
        return path

    async def put(self, kind: str, name: str, **fields: Any) -> None:
        """Add or change an object."""
        self.version += 1
        known = name in self.objects[kind]
        meta = {"name": name, "namespace": "default", **fields.pop("metadata", {})}
        each = {"metadata": {**meta, "resourceVersion": str(self.version)}, **fields}
        self.objects[kind][name] = each
        await self._happened("MODIFIED" if known else "ADDED", each)

    async def delete(self, kind: str, name: str, *, silently: bool = False) -> None:
        """Take an object out; `silently` as where a watch misses it."""
        self.version += 1
        each = self.objects[kind].pop(name)
        each = {**each, "metadata": {**each["metadata"], "resourceVersion": str(self.version)}}
        if not silently:
            await self._happened("DELETED", each)

    async def cut(self) -> None:
        """Break every watch off."""
        self._cut.set()
        async with self._changed:
            self._changed.notify_all()
        self._cut = asyncio.Event()

    def forget_history(self) -> None:
        """Watches that go on from before are answered with 410."""
        self.oldest = self.version
        self.history.clear()

    async def _happened(self, kind: str, each: dict[str, Any]) -> None:
        self.history.append((self.version, kind, each))
        async with self._changed:
            self._changed.notify_all()

    async def _answer(self, kind: str, name: str, request: web.Request) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        self.authorizations.append(request.headers.get("authorization"))
        if self.refuse is not None:
            status = {"kind": "Status", "code": self.refuse, "message": "refused", "reason": "Refused"}
            return web.json_response(status, status=self.refuse)
        if request.query.get("watch") == "true":
            return await self._watch(request, kind)
        self.lists += 1
        items = list(self.objects[kind].values())
        meta = {"resourceVersion": str(self.version)}
        return web.json_response({"kind": f"{name}List", "metadata": meta, "items": items})

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        after = int(request.query["resourceVersion"])
        self.watches.append(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        if after < self.oldest:
            status = {"kind": "Status", "code": 410, "message": "too old", "reason": "Expired"}
            await self._send(response, "ERROR", status)
            return response
        cut = self._cut
        while not self.ends_watches and not cut.is_set():
            for version, what, each in list(self.history):
                if version > after and not self.mutes_watches and each in self._of(kind):
                    await self._send(response, what, each)
                    after = version
            async with self._changed:
                await self._changed.wait()
        if cut.is_set() and request.transport is not None:
            request.transport.abort()
        return response

    def _of(self, kind: str) -> list[dict[str, Any]]:
        has_status = kind == "pods"
        return [each for _, _, each in self.history if ("status" in each) == has_status]

    async def _send(self, response: web.StreamResponse, kind: str, each: dict[str, Any]) -> None:
        await response.write(json.dumps({"type": kind, "object": each}).encode() + b"\n")


def endpoint(
    name: str,
    address: str = "127.0.0.1",
    *,
    uid: str = "",
    ready: bool | None = True,
    terminating: bool = False,
) -> dict[str, Any]:
    """One endpoint of a slice."""
    return {
        "addresses": [address],
        "conditions": {"ready": ready, "serving": ready, "terminating": terminating},
        "targetRef": {"kind": "Pod", "name": name, "uid": uid or f"uid-{name}"},
    }


def slice_of(port: int, *endpoints: dict[str, Any], kind: str = "IPv4") -> dict[str, Any]:
    """The fields of an EndpointSlice."""
    return {
        "addressType": kind,
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    }


def pod(
    name: str,
    address: str | None = "127.0.0.1",
    *,
    port: int = 8000,
    uid: str = "",
    ready: bool = True,
    phase: str = "Running",
    ending: bool = False,
) -> dict[str, Any]:
    """The fields of a pod."""
    meta = {"uid": uid or f"uid-{name}"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if ending else {})
    return {
        "metadata": meta,
        "spec": {"containers": [{"name": "vllm", "ports": [{"name": "http", "containerPort": port}]}]},
        "status": {
            "phase": phase,
            "podIP": address,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
