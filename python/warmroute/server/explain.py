"""`POST /warmroute/v1/explain`: where a request would go, and every worker's part in it. Books nothing."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from warmroute.errors import InvalidRequest, WarmrouteError
from warmroute.server.replies import Reply, error_body, json_reply

# Which field says what kind of body it is, where the query does not.
ENDPOINTS = {
    "messages": "/v1/chat/completions",
    "prompt": "/v1/completions",
    "input": "/v1/responses",
}
TERMS = {"model", "tenant", "max_tokens", "session", "lora", "cache_salt"}


class Explain:
    """Explains an OpenAI body, or `{"tokens": [ids]}` with the terms that `Router.route` takes."""

    def __init__(self, explain_tokens: Callable[..., Any], explain_body: Callable[[str, bytes], Any]) -> None:
        """Take what explains token ids, and what explains a body that is meant for a path."""
        self._explain_tokens = explain_tokens
        self._explain_body = explain_body

    def __call__(self, query: str, body: bytes) -> Reply:
        """Answer with the decision, or why there is none, and the candidates."""
        try:
            document = json.loads(body)
        except ValueError as error:
            raise InvalidRequest(f"the body is not JSON: {error}") from None
        except RecursionError:
            raise InvalidRequest("the body is nested too deeply") from None
        if not isinstance(document, dict):
            raise InvalidRequest("the body is not a JSON object")
        if "tokens" in document:
            return json_reply(_document(self._by_tokens(document)))
        return json_reply(_document(self._explain_body(_endpoint(query, document), body)))

    def _by_tokens(self, document: dict[str, Any]) -> Any:
        tokens = document.pop("tokens")
        unknown = sorted(document.keys() - TERMS)
        if unknown:
            raise InvalidRequest(
                f"unknown field {unknown[0]!r} beside tokens; known: {', '.join(sorted(TERMS))}"
            )
        if not isinstance(tokens, list):
            raise InvalidRequest("tokens is not a list of token ids")
        try:
            return self._explain_tokens(tokens, **document)
        except WarmrouteError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidRequest(str(error)) from None


def _endpoint(query: str, document: dict[str, Any]) -> str:
    """The path that the body is meant for: named by the query, or told by its fields."""
    named = parse_qs(query).get("endpoint")
    if named:
        return named[0]
    for name, endpoint in ENDPOINTS.items():
        if name in document:
            return endpoint
    raise InvalidRequest("the body has none of tokens, messages, prompt and input")


def _document(explanation: Any) -> dict[str, Any]:
    decision, error = explanation.decision, explanation.error
    return {
        "decision": None if decision is None else _decision(decision),
        "error": None if error is None else error_body(error),
        "prompt": {
            "rung": explanation.rung,
            "inexact": explanation.inexact,
            "inexact_because": explanation.inexact_because,
        },
        "candidates": [_candidate(candidate) for candidate in explanation.candidates],
    }


def _decision(decision: Any) -> dict[str, Any]:
    return {
        "worker": decision.worker,
        "reason": decision.reason,
        "prompt_tokens": decision.prompt_tokens,
        "overlap_tokens": decision.overlap_tokens,
        "confirmed_tokens": decision.confirmed_tokens,
        "lower_tokens": decision.lower_tokens,
        "predicted_ttft_seconds": decision.predicted_ttft,
    }


def _candidate(candidate: Any) -> dict[str, Any]:
    cost = candidate.cost
    return {
        "worker": candidate.worker,
        "state": candidate.state,
        "refusal": candidate.refusal,
        "overlap_tokens": candidate.overlap_tokens,
        "confirmed_tokens": candidate.confirmed_tokens,
        "lower_tokens": candidate.lower_tokens,
        "requests": candidate.requests,
        "context_tokens": candidate.context_tokens,
        "full": candidate.full,
        "cost_seconds": {
            "wait": cost.wait,
            "transfer": cost.transfer,
            "prefill": cost.prefill,
            "delay": cost.delay,
            "decode": cost.decode,
            "total": cost.total,
        },
    }
