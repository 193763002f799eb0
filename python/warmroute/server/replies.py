"""Replies of the control paths: JSON, text, and errors in OpenAI's shape."""

import json
import math
from collections.abc import Mapping
from typing import Any

from warmroute.errors import WarmrouteError
from warmroute.fleet import Verdict, WorkerEntry

Reply = tuple[int, str, bytes]

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


def json_reply(document: Any, status: int = 200) -> Reply:
    """A document; numbers that JSON does not have become null."""
    return status, JSON, json.dumps(_finite(document), ensure_ascii=False, allow_nan=False).encode()


def text_reply(text: str, status: int = 200) -> Reply:
    """A line of text."""
    return status, TEXT, text.encode() + b"\n"


def error_reply(error: WarmrouteError, status: int | None = None) -> Reply:
    """An error, in OpenAI's shape."""
    return json_reply({"error": error_body(error)}, status or error.http_status or 500)


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
