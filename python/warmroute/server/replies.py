"""Replies of the control paths: JSON, text, and errors in OpenAI's shape."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from warmroute.errors import InvalidRequest, WarmrouteError
from warmroute.fleet import Verdict, WorkerEntry

# Status, content type, body, and further headers where there are any.
Reply = tuple[int, str, bytes] | tuple[int, str, bytes, dict[str, str]]

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class NotFound(InvalidRequest):
    """There is no such path."""

    code = "not_found"


class MethodNotAllowed(InvalidRequest):
    """The path does not take this method."""

    code = "method_not_allowed"


def json_reply(document: Any, status: int = 200) -> tuple[int, str, bytes]:
    """A document; numbers that JSON does not have become null."""
    return status, JSON, json.dumps(_finite(document), ensure_ascii=False, allow_nan=False).encode()


def text_reply(text: str, status: int = 200) -> tuple[int, str, bytes]:
    """A line of text."""
    return status, TEXT, text.encode() + b"\n"


def error_reply(error: WarmrouteError, status: int | None = None) -> tuple[int, str, bytes]:
    """An error, in OpenAI's shape."""
    return json_reply({"error": error_body(error)}, status or error.http_status or 500)


def refusal(path: str, methods: Iterable[str]) -> Reply:
    """What a request gets whose path takes other methods, or none."""
    allowed = ", ".join(methods)
    if not allowed:
        return error_reply(NotFound(f"there is no {path}"), 404)
    error = MethodNotAllowed(f"{path} takes {allowed}")
    return *error_reply(error, 405), {"allow": allowed}


def error_body(error: WarmrouteError) -> dict[str, Any]:
    """What OpenAI's clients read of an error."""
    return {"message": str(error), "type": error.error_type, "param": None, "code": error.code}


def worker_document(entry: WorkerEntry, verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    """A worker, with what is known of how its tokens compare with ours."""
    return {
        "name": entry.name,
        "url": entry.url,
        "source": entry.source,
        "state": entry.state,
        "health": {
            "status": entry.health,
            "failures": entry.failures,
            "error": entry.error,
            "slow": entry.slow,
            "frozen": entry.frozen,
        },
        "version": entry.version or None,
        "models": list(entry.models),
        "adapters": list(entry.adapters),
        "max_model_len": entry.max_model_len,
        "block_size": entry.block_size,
        "kv_blocks": entry.kv_blocks,
        "max_requests": entry.max_requests,
        "dp_rank": entry.dp_rank,
        "tokens": {model: verdict.document() for model, verdict in verdicts.items()},
        "load": dict(entry.load),
    }


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
