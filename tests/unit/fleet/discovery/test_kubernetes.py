from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lightkube.models.core_v1 import Pod
from lightkube.models.discovery_v1 import EndpointSlice
from lightkube.resources.discovery_v1 import EndpointSlice as SliceResource

from tests.support.kubernetes import Cluster, endpoint, pod, slice_of
from warmroute.errors import ConfigError
from warmroute.fleet.discovery import Listing
from warmroute.fleet.discovery.kubernetes import Api, KubernetesSource, kubernetes_source
from warmroute.fleet.discovery.pods import Workers

QUICK = (0.01, 0.05)


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with Cluster() as one:
        monkeypatch.setenv("KUBECONFIG", str(one.kubeconfig(tmp_path / "kubeconfig")))
        yield one


class Watched:
    """What a source publishes last: names, with a minus before those that drain."""

    def __init__(self, source: KubernetesSource) -> None:
        self.source = source
        self.last: list[str] | None = None
        self.listings: Sequence[Listing] = ()
        self._task = asyncio.create_task(source.run(self.publish))

    def publish(self, listings: Sequence[Listing]) -> None:
        self.listings = listings
        self.last = sorted(("-" if each.draining else "") + each.name for each in listings)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                assert not self._task.done(), self._task.exception()
                await asyncio.sleep(0.002)

    async def becomes(self, *wanted: str) -> None:
        await self.until(lambda: self.last == list(wanted))

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


Watch = Callable[..., Watched]


@pytest.fixture
async def watch(cluster: Cluster) -> AsyncIterator[Watch]:
    started: list[tuple[Watched, Api]] = []

    def start(resync_s: float = 60.0) -> Watched:
        api = Api(SliceResource, None, "kubernetes.io/service-name=vllm", 5)
        source = KubernetesSource(api, Workers(None).of_slices, resync_s=resync_s, pause_s=QUICK)
        started.append((Watched(source), api))
        return started[-1][0]

    yield start
    for watched, api in started:
        await watched.stop()
        await api.close()


async def test_workers_are_listed_watched_and_asked_for_by_label(cluster: Cluster, watch: Watch) -> None:
    await cluster.put("slices", "s", **slice_of(8000, endpoint("a", "10.0.0.1")))
    watched = watch()
    await watched.becomes("a")
    assert watched.listings[0].worker.url == "http://10.0.0.1:8000"
    await cluster.put("slices", "s", **slice_of(8000, endpoint("a", "10.0.0.1"), endpoint("b", "10.0.0.2")))
    await watched.becomes("a", "b")
    await cluster.put(
        "slices",
        "s",
        **slice_of(8000, endpoint("a", "10.0.0.1", ready=False, terminating=True), endpoint("b", "10.0.0.2")),
    )
    await watched.becomes("-a", "b")
    await cluster.delete("slices", "s")
    await watched.becomes()
    assert cluster.lists == 1
    assert {query["labelSelector"] for query in cluster.queries} == {"kubernetes.io/service-name=vllm"}
    assert set(cluster.authorizations) == {"Bearer a-token"}


async def test_a_watch_that_is_ended_goes_on_where_it_was(cluster: Cluster, watch: Watch) -> None:
    await cluster.put("slices", "s", **slice_of(8000, endpoint("a")))
    watched = watch()
    await watched.becomes("a")
    await cluster.put("slices", "s", **slice_of(8000, endpoint("b")))
    await watched.becomes("b")
    cluster.ends_watches = True
    await cluster.put("slices", "t", **slice_of(8001, endpoint("c")))
    seen = len(cluster.watches)
    await watched.until(lambda: len(cluster.watches) > seen + 2)
    cluster.ends_watches = False
    await watched.becomes("b", "c")
    assert cluster.lists == 1
    assert watched.source.standing.failures == 0


async def test_a_watch_that_breaks_off_misses_nothing(cluster: Cluster, watch: Watch) -> None:
    await cluster.put("slices", "s", **slice_of(8000, endpoint("a")))
    await cluster.put("slices", "t", **slice_of(8001, endpoint("b")))
    watched = watch()
    await watched.becomes("a", "b")
    await watched.until(lambda: bool(cluster.watches))
    # Deleted while nobody watches: only another list can tell.
    await cluster.delete("slices", "s", silently=True)
    await cluster.cut()
    await watched.becomes("b")
    assert cluster.lists >= 2


async def test_a_version_that_is_too_old_is_followed_by_a_list(cluster: Cluster, watch: Watch) -> None:
    await cluster.put("slices", "s", **slice_of(8000, endpoint("a")))
    watched = watch()
    await watched.becomes("a")
    cluster.ends_watches = True
    await cluster.delete("slices", "s", silently=True)
    await cluster.put("slices", "t", **slice_of(8001, endpoint("b")))
    seen = len(cluster.watches)
    await watched.until(lambda: len(cluster.watches) > seen)
    cluster.forget_history()
    cluster.ends_watches = False
    await watched.becomes("b")
    assert cluster.lists == 2
    assert watched.source.standing.failures == 0


async def test_a_watch_that_has_gone_silent_is_noticed(cluster: Cluster, watch: Watch) -> None:
    await cluster.put("slices", "s", **slice_of(8000, endpoint("a")))
    watched = watch(resync_s=0.2)
    await watched.becomes("a")
    cluster.mutes_watches = True
    await cluster.delete("slices", "s")
    await cluster.put("slices", "t", **slice_of(8001, endpoint("b")))
    await watched.becomes("b")
    assert watched.source.standing.failures == 0


@pytest.mark.parametrize(("status", "said"), [(403, "may not list"), (401, "token"), (500, "answers 500")])
async def test_a_cluster_that_refuses_keeps_the_workers_and_is_said_once(
    cluster: Cluster, watch: Watch, status: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.put("slices", "s", **slice_of(8000, endpoint("a")))
    watched = watch()
    await watched.becomes("a")
    await watched.until(lambda: bool(cluster.watches))
    caplog.clear()
    cluster.refuse = status
    await cluster.cut()
    await watched.until(lambda: watched.source.standing.failures >= 4)
    assert watched.last == ["a"]
    assert said in watched.source.standing.document()["error"]
    texts = [getattr(record, "warmroute_fields", {}).get("error", "") for record in caplog.records]
    assert sum(said in text for text in texts) == 1
    cluster.refuse = None
    await cluster.put("slices", "s", **slice_of(8000, endpoint("b")))
    await watched.becomes("b")
    assert not watched.source.standing.document()["failing"]


async def test_a_cluster_that_is_not_there_is_waited_for(cluster: Cluster, watch: Watch) -> None:
    async with Cluster() as other:
        port = other.port
    watched = watch()
    await watched.until(lambda: bool(cluster.watches))
    api: Any = watched.source._cluster
    api._client.base_url = f"http://127.0.0.1:{port}"
    await cluster.cut()
    await watched.until(lambda: watched.source.standing.failures >= 2)
    assert "does not answer" in watched.source.standing.document()["error"]


def slices(*documents: dict[str, Any]) -> list[Any]:
    return [
        EndpointSlice.from_dict({"metadata": {"name": f"s{n}"}, **each}) for n, each in enumerate(documents)
    ]


def named(listings: list[Listing]) -> dict[str, str]:
    return {("-" if each.draining else "") + each.name: each.worker.url for each in listings}


def test_a_worker_that_was_never_ready_is_not_listed() -> None:
    workers = Workers(None)
    assert workers.of_slices(slices(slice_of(1, endpoint("a", ready=False)))) == []
    assert list(named(workers.of_slices(slices(slice_of(1, endpoint("a")))))) == ["a"]
    assert list(named(workers.of_slices(slices(slice_of(1, endpoint("a", ready=False)))))) == ["-a"]
    # Nothing is said of readiness: it is ready.
    assert list(named(workers.of_slices(slices(slice_of(1, endpoint("b", ready=None)))))) == ["b"]
    # Another pod of the same name has to be ready itself.
    assert workers.of_slices(slices(slice_of(1, endpoint("a", uid="other", ready=False)))) == []


def test_a_pod_in_several_slices_is_one_worker() -> None:
    both = slices(
        slice_of(1, endpoint("a", "fd00::1"), kind="IPv6"),
        slice_of(1, endpoint("a", "10.0.0.1")),
        slice_of(1, endpoint("a", "10.0.0.1", ready=False)),
        slice_of(1, endpoint("x", "example.test"), kind="FQDN"),
    )
    assert named(Workers(None).of_slices(both)) == {"a": "http://10.0.0.1:1"}
    assert named(Workers(None).of_slices(both[:1])) == {"a": "http://[fd00::1]:1"}


def test_an_endpoint_without_a_pod_is_called_by_its_address() -> None:
    bare = {"addresses": ["10.0.0.1"]}
    (listing,) = Workers(None).of_slices(slices(slice_of(8000, bare)))
    assert (listing.name, listing.instance) == ("10.0.0.1:8000", "")
    long = endpoint("p" * 200, "10.0.0.1")
    assert Workers(None).of_slices(slices(slice_of(8000, long)))[0].name == "10.0.0.1:8000"


@pytest.mark.parametrize(
    ("wanted", "ports", "chosen"),
    [
        (None, [{"port": 1}], 1),
        (None, [{"name": "metrics", "port": 1}, {"name": "http", "port": 2}], 2),
        (None, [{"name": "a", "port": 1}, {"name": "b", "port": 2}], None),
        ("b", [{"name": "a", "port": 1}, {"name": "b", "port": 2}], 2),
        ("9", [{"name": "a", "port": 1}], 9),
        ("http", [], None),
    ],
)
def test_the_port(wanted: str | None, ports: list[dict[str, Any]], chosen: int | None) -> None:
    (each,) = slices({"addressType": "IPv4", "ports": ports, "endpoints": [endpoint("a", "10.0.0.1")]})
    expected = {} if chosen is None else {"a": f"http://10.0.0.1:{chosen}"}
    assert named(Workers(wanted).of_slices([each])) == expected


def pods(**documents: dict[str, Any]) -> list[Any]:
    return [
        Pod.from_dict({**each, "metadata": {"name": name, **each["metadata"]}})
        for name, each in documents.items()
    ]


def test_pods() -> None:
    workers = Workers(None)
    assert named(workers.of_pods(pods(a=pod("a"), b=pod("b", "10.0.0.2", ready=False)))) == {
        "a": "http://127.0.0.1:8000"
    }
    assert named(workers.of_pods(pods(a=pod("a", ending=True)))) == {"-a": "http://127.0.0.1:8000"}
    # Evicted: its address is taken away. Ended: it has one still.
    assert workers.of_pods(pods(a=pod("a", None))) == []
    assert workers.of_pods(pods(a=pod("a", phase="Failed"))) == []
    assert workers.of_pods(pods(bare={"metadata": {}})) == []


def test_the_same_name_again_is_another_process() -> None:
    workers = Workers(None)
    (first,) = workers.of_pods(pods(a=pod("a", uid="1")))
    (second,) = workers.of_pods(pods(a=pod("a", uid="2")))
    assert (first.key, first.name) == (second.key, second.name)
    assert first.instance != second.instance


def source(**options: Any) -> KubernetesSource:
    rest = {"namespace": None, "port": None, "timeout_s": 1, "resync_s": 1}
    return kubernetes_source(**{"service": None, "selector": None, **rest, **options})


async def test_a_service_or_a_selector(cluster: Cluster) -> None:
    for options in ({}, {"service": "a", "selector": "b=c"}):
        with pytest.raises(ConfigError, match="not both"):
            source(**options)
    await cluster.put("pods", "a", **pod("a"))
    watched = Watched(source(selector="app=vllm"))
    await watched.becomes("a")
    assert cluster.queries[0]["labelSelector"] == "app=vllm"
    await watched.stop()


def test_without_a_cluster_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    with pytest.raises(ConfigError, match="service account"):
        source(service="vllm")
