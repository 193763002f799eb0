"""What EndpointSlices and pods of Kubernetes say of workers. Pure: objects in, listings out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lightkube.models.core_v1 import Pod
from lightkube.models.discovery_v1 import Endpoint, EndpointPort, EndpointSlice

from warmroute.config import WorkerOptions
from warmroute.config.worker import worker_of
from warmroute.errors import ConfigError
from warmroute.fleet.discovery.listing import KUBERNETES, Listing
from warmroute.logs import get

# The port's name that is taken where there are several and none is configured.
PORT_NAME = "http"

log = get("discovery")


class Workers:
    """Turns what is in the cluster at one moment into listings.

    A worker that was ready once and is not, or is being ended, drains: it may finish what it has, and what it
    holds is not forgotten. One that was never ready is not listed.
    """

    def __init__(self, port: str | None) -> None:
        """Take the name or number of the port; without it the only one, or the one that is called `http`."""
        self._port = port
        self._were_ready: set[str] = set()

    def of_slices(self, slices: Iterable[EndpointSlice]) -> list[Listing]:
        """The workers of a service's EndpointSlices."""
        found = [found for each in slices if each.addressType != "FQDN" for found in self._of_slice(each)]
        return self._listings(found)

    def of_pods(self, pods: Iterable[Pod]) -> list[Listing]:
        """The workers that pods are."""
        return self._listings([found for pod in pods for found in self._of_pod(pod)])

    def _of_slice(self, each: EndpointSlice) -> Iterator["_Found"]:
        port = self._slice_port(each.ports or [])
        if port is None:
            if each.endpoints:
                log.once(
                    each.metadata and each.metadata.name,
                    "an EndpointSlice has no such port: set --kubernetes-port",
                    port=self._port or PORT_NAME,
                    known=", ".join(str(port.name or port.port) for port in each.ports or []),
                )
            return
        for endpoint in each.endpoints or []:
            if endpoint.addresses:
                yield _endpoint(endpoint, port)

    def _slice_port(self, ports: list[EndpointPort]) -> int | None:
        return _chosen(self._port, [(port.name, port.port) for port in ports if port.port])

    def _of_pod(self, pod: Pod) -> Iterator["_Found"]:
        meta, status, spec = pod.metadata, pod.status, pod.spec
        if meta is None or status is None or spec is None or not status.podIP or status.phase != "Running":
            return
        known = [
            (port.name, port.containerPort) for container in spec.containers for port in container.ports or []
        ]
        port = _chosen(self._port, known)
        if port is None:
            log.once(meta.name, "a pod has no such port: set --kubernetes-port", pod=meta.name)
            return
        ready = any(each.type == "Ready" and each.status == "True" for each in status.conditions or [])
        ending = meta.deletionTimestamp is not None
        yield _Found(meta.name, meta.uid or "", status.podIP, port, ready, ending)

    def _listings(self, found: list["_Found"]) -> list[Listing]:
        """One listing for each pod: it may be in several slices, and have an address of either family."""
        best: dict[str, _Found] = {}
        for each in sorted(
            found, key=lambda each: (":" in each.address, each.ending, not each.ready, each.address)
        ):
            best.setdefault(each.uid or f"{each.address}:{each.port}", each)
        self._were_ready = {key for key, each in best.items() if each.ready or key in self._were_ready}
        listed = [best[key].listing() for key in best if key in self._were_ready]
        return sorted(listed, key=lambda listing: listing.worker.url)


@dataclass(frozen=True, slots=True)
class _Found:
    """An address in the cluster."""

    name: str | None
    uid: str
    address: str
    port: int
    ready: bool
    ending: bool

    def listing(self) -> Listing:
        host = f"[{self.address}]" if ":" in self.address else self.address
        url = f"http://{host}:{self.port}"
        return Listing(_worker(self.name, url), draining=self.ending or not self.ready, instance=self.uid)


def _worker(name: str | None, url: str) -> WorkerOptions:
    try:
        return worker_of(f"{name}={url}" if name else url, KUBERNETES)
    except ConfigError:
        # A pod's name may be longer than a worker's.
        return worker_of(url, KUBERNETES)


def _endpoint(endpoint: Endpoint, port: int) -> _Found:
    conditions, target = endpoint.conditions, endpoint.targetRef
    # What is not said is said to mean yes, and no.
    ready = conditions is None or conditions.ready is None or conditions.ready
    ending = conditions is not None and bool(conditions.terminating)
    named = target if target is not None and target.kind == "Pod" else None
    return _Found(
        named.name if named else None,
        (named.uid or "") if named else "",
        endpoint.addresses[0],
        port,
        ready,
        ending,
    )


def _chosen(wanted: str | None, ports: list[tuple[str | None, int]]) -> int | None:
    if wanted is not None and wanted.isdigit():
        return int(wanted)
    if wanted is None and len(ports) == 1:
        return ports[0][1]
    return next((port for name, port in ports if name == (wanted or PORT_NAME)), None)
