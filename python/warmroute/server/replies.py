"""Replies of the control paths: JSON, text, and errors in OpenAI's shape."""

import json
import math
from typing import Any

from warmroute.errors import WarmrouteError

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


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
