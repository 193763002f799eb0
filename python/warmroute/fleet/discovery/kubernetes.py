"""Workers from Kubernetes: the EndpointSlices of a service, or pods by their labels.

Everything is listed first, then changes are watched from there on. A watch that the server ends goes on where
it was; one that fails, that is too old (410), or that has lasted for long is followed by another list. So
nothing that happened meanwhile is missed, and a watch that has gone silent is noticed.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, Protocol

import httpx2
import msgspec
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.core.exceptions import ConfigError as ClusterConfigError
from lightkube.core.generic_client import GenericAsyncClient, WatchDriver
from lightkube.resources.core_v1 import Pod
from lightkube.resources.discovery_v1 import EndpointSlice

from warmroute.errors import ConfigError
from warmroute.fleet.discovery.listing import KUBERNETES, Listing, Publish
from warmroute.fleet.discovery.pods import Workers
from warmroute.fleet.discovery.standing import Standing

SERVICE_LABEL = "kubernetes.io/service-name"
# Objects of one page of a list.
PAGE = 500
GONE = 410

FAULTS = (httpx2.HTTPError, httpx2.StreamError, msgspec.MsgspecError, ClusterConfigError, OSError)

Event = tuple[str, str, Any]


class Cluster(Protocol):
    """Who lists and watches the objects of interest. Both raise one of `FAULTS`."""

    async def list(self) -> tuple[str, dict[str, Any]]:
        """The version of the list, and every object by its name."""

    def watch(self, version: str) -> AsyncGenerator[Event]:
        """What happens after a version, until the server ends it.

        Each event is `ADDED`, `MODIFIED` or `DELETED`, the object's name, and the object.
        """


class Api(GenericAsyncClient):
    """The objects of one kind, in one namespace, with some labels, through the cluster's API.

    The library's own watch reconnects without a pause and never ends; this one is one request.
    """

    def __init__(self, kind: type[Any], namespace: str | None, labels: str, timeout_s: float) -> None:
        """Take what is asked for; raises `ConfigError` where the cluster's address is not known.

        The address is that of the cluster that this runs in, else of `KUBECONFIG`, else of `~/.kube/config`.
        """
        try:
            config = KubeConfig.from_env().get()
        except (ClusterConfigError, OSError, ValueError) as error:
            raise ConfigError(
                "fleet.kubernetes", str(error), "to run in a pod with a service account, or with KUBECONFIG"
            ) from None
        super().__init__(ConnectionParams(timeout=httpx2.Timeout(timeout_s)), config, namespace)
        self._kind, self._labels = kind, labels

    async def list(self) -> tuple[str, dict[str, Any]]:  # type: ignore[override]
        """As in `Cluster`."""
        params = {"labelSelector": self._labels, "limit": str(PAGE)}
        pages = super().list(self.prepare_request("list", self._kind, params=params))
        objects = {each.metadata.name: each async for each in pages}
        return pages.resourceVersion, objects

    async def watch(self, version: str) -> AsyncGenerator[Event]:  # type: ignore[override]
        """As in `Cluster`."""
        params = {"labelSelector": self._labels, "resourceVersion": version}
        driver: Any = WatchDriver(
            self.prepare_request("list", self._kind, watch=True, params=params), self._client.build_request
        )
        send: Any = self.send
        response = await send(driver.get_request(self._watch_timeout), stream=True)
        try:
            response.raise_for_status()
            async for line in response.aiter_lines():
                kind, each = driver.process_one_line(line)
                yield kind, each.metadata.name, each
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class KubernetesSource:
    """The workers of a service, or of pods."""

    name = KUBERNETES

    def __init__(
        self,
        cluster: Cluster,
        workers_of: Callable[[Iterable[Any]], list[Listing]],
        *,
        resync_s: float,
        pause_s: tuple[float, float],
    ) -> None:
        """Take who lists and watches, what makes workers of the objects, how long a watch counts without
        another list, and the first and the longest pause after a failure.
        """
        self._cluster = cluster
        self._workers_of = workers_of
        self._resync_s = resync_s
        self._pause_s = pause_s
        self._failures = 0
        self.standing = Standing(KUBERNETES)

    async def run(self, publish: Publish) -> None:
        """List, watch, and publish at each change."""
        while True:
            limit = asyncio.timeout(self._resync_s * random.uniform(0.8, 1.2))  # noqa: S311 - moves apart
            try:
                async with limit:
                    await self._follow(publish)
            except FAULTS as error:
                if limit.expired():
                    continue
                if _is_gone(error):
                    await asyncio.sleep(self._pause_s[0] * random.uniform(0, 0.5))  # noqa: S311 - moves apart
                    continue
                self._failures += 1
                self.standing.bad(_said(error))
                await self._pause()

    async def _follow(self, publish: Publish) -> None:
        version, objects = await self._cluster.list()
        self._tell(publish, objects)
        while True:
            async with contextlib.aclosing(self._cluster.watch(version)) as events:
                async for kind, name, each in events:
                    version = each.metadata.resourceVersion or version
                    if kind == "DELETED":
                        objects.pop(name, None)
                    else:
                        objects[name] = each
                    self._tell(publish, objects)
            # A server ends a watch from time to time; one that does so at once must not be asked in a loop.
            await asyncio.sleep(self._pause_s[0] * random.uniform(0.5, 1))  # noqa: S311 - moves apart

    def _tell(self, publish: Publish, objects: dict[str, Any]) -> None:
        listings = self._workers_of(objects.values())
        publish(listings)
        self._failures = 0
        self.standing.good(len(listings))

    async def _pause(self) -> None:
        first, longest = self._pause_s
        pause = min(longest, first * 2 ** min(self._failures - 1, 16))
        await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - moves apart


def kubernetes_source(
    *,
    service: str | None,
    selector: str | None,
    namespace: str | None,
    port: str | None,
    timeout_s: float,
    resync_s: float,
) -> KubernetesSource:
    """The source of a service's workers, or of pods with these labels; raises `ConfigError`."""
    if (service is None) == (selector is None):
        raise ConfigError(
            "fleet.kubernetes_service", service, "either it or kubernetes_selector, and not both of them"
        )
    workers = Workers(port)
    labels = f"{SERVICE_LABEL}={service}" if service is not None else str(selector)
    cluster = Api(EndpointSlice if service is not None else Pod, namespace, labels, timeout_s)
    return KubernetesSource(
        cluster,
        workers.of_slices if service is not None else workers.of_pods,
        resync_s=resync_s,
        pause_s=(1.0, 30.0),
    )


def _is_gone(error: Exception) -> bool:
    """Whether the version that was asked from is too old: the list comes anew, at once."""
    return isinstance(error, ApiError) and error.status.code == GONE


def _said(error: Exception) -> str:
    if isinstance(error, httpx2.HTTPStatusError) and error.response is not None:
        hint = {
            401: ": the service account's token is not taken",
            403: ": the service account may not list and watch it (see docs/discovery.md)",
        }.get(error.response.status_code, "")
        return f"the cluster answers {error.response.status_code}{hint}"
    return f"the cluster does not answer: {type(error).__name__} {error}".strip()
