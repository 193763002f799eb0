"""The paths that warmroute answers itself: metrics, health, the fleet's models, its workers, explanations.

Called from the data plane's threads with the request already read; it answers from memory and never waits.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import parse_qs

from warmroute.errors import InvalidRequest, WarmrouteError
from warmroute.fleet import Fleet, Trust, entry_of
from warmroute.fleet.health import Status
from warmroute.logs import get
from warmroute.metrics import CONTENT_TYPE, Metrics
from warmroute.server.admin import PATH, Admin, methods_of
from warmroute.server.replies import Reply, error_reply, json_reply, refusal, text_reply, worker_document

Answer = Callable[[str, bytes], Reply]

log = get("control")


class RouterPort(Protocol):
    """What the control paths read of the router."""

    def stats(self) -> dict[str, Any]:
        """The counters and the state of the moment."""


class Control:
    """Answers one request at a time; the data plane may call it from several threads."""

    def __init__(
        self,
        router: RouterPort,
        fleet: Fleet,
        trust: Trust,
        metrics: Metrics,
        explain: Answer,
        *,
        admin: Admin | None = None,
        warming: Callable[[], list[str]] = list,
        confirmed: Callable[[str], dict[str, Any] | None] = lambda _: None,
    ) -> None:
        """Take what is asked of, what answers `/warmroute/v1/explain`, what changes the fleet, if anything
        does, who is waited for at the start, and what tells the blocks that are confirmed of a worker.
        """
        self._admin = admin
        self._router = router
        self._fleet = fleet
        self._trust = trust
        self._metrics = metrics
        self._warming = warming
        self._confirmed = confirmed
        self.draining = False
        self._paths: dict[str, tuple[str, Answer]] = {
            "/healthz": ("GET", self._healthz),
            "/metrics": ("GET", self._scrape),
            "/readyz": ("GET", self._readyz),
            "/v1/models": ("GET", self._models),
            "/warmroute/v1/blocks": ("GET", self._blocks),
            "/warmroute/v1/explain": ("POST", explain),
            PATH: ("GET", self._workers),
        }

    def __call__(
        self,
        method: str,
        path: str,
        query: str,
        body: bytes,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Reply:
        """Answer a request: status, content type and body. Names of headers are in small letters."""
        try:
            if self._admin is not None and method in methods_of(path):
                return self._admin(method, path, body, headers)
            own, answer = self._paths.get(path, ("", None))
            if answer is not None and (method == own or (method == "HEAD" and own == "GET")):
                return answer(query, body)
            return refusal(path, self._methods(path, own))
        except WarmrouteError as error:
            return error_reply(error)
        except Exception:
            log.exception("a control path failed", path=path)
            return error_reply(WarmrouteError("internal error"), 500)

    def _methods(self, path: str, own: str) -> list[str]:
        """The methods that a path takes."""
        found = {"": [], "GET": ["GET", "HEAD"]}.get(own, [own])
        return found + [*methods_of(path)] * (self._admin is not None)

    def _healthz(self, _query: str, _body: bytes) -> Reply:
        return text_reply("ok")

    def unready(self) -> str:
        """Why nothing should be sent here; empty where the router is ready."""
        if self.draining:
            return "draining"
        if not self._fleet.is_ready():
            return "no worker is up"
        if waiting := self._warming():
            return f"warming: the KV events of {len(waiting)} workers are replayed"
        return ""

    def _readyz(self, _query: str, _body: bytes) -> Reply:
        why = self.unready()
        return text_reply(why, 503) if why else text_reply("ready")

    def _scrape(self, _query: str, _body: bytes) -> Reply:
        return 200, CONTENT_TYPE, self._metrics.render()

    def _models(self, _query: str, _body: bytes) -> Reply:
        models: dict[str, dict[str, Any]] = {}
        for state in self._fleet.states():
            if state.health.status is not Status.UP:
                continue
            known = {model.id: model for model in state.facts.models}
            for name in state.options.models or known:
                model = known.get(name)
                entry = models.setdefault(
                    name,
                    {
                        "id": name,
                        "object": "model",
                        "created": model.created if model else 0,
                        "owned_by": model.owned_by if model else "vllm",
                        "max_model_len": None,
                    },
                )
                longest = state.options.max_model_len or (model.max_model_len if model else None)
                entry["max_model_len"] = max(entry["max_model_len"] or 0, longest or 0) or None
        return json_reply({"object": "list", "data": [models[name] for name in sorted(models)]})

    def _workers(self, _query: str, _body: bytes) -> Reply:
        loads: dict[str, Any] = {load["name"]: load for load in self._router.stats()["workers"]}
        workers = [
            worker_document(entry_of(state, loads.get(state.name, {})), self._trust.of(state.name))
            for state in self._fleet.states()
        ]
        return json_reply({"workers": workers})

    def _blocks(self, query: str, _body: bytes) -> Reply:
        """What is confirmed of one worker, in its engine's own names; a name is 16 hexadecimal digits."""
        (name,) = parse_qs(query).get("worker", [""])[:1]
        confirmed = self._confirmed(name)
        if confirmed is None:
            raise InvalidRequest("worker is not the name of one whose KV events are followed")
        names = sorted(f"{each:016x}" for each in confirmed["names"])
        return json_reply({"worker": name, **confirmed, "names": names})
