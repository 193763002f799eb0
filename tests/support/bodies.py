"""Request bodies and what replies are held against."""

from __future__ import annotations

from typing import Any

from tests.support.http import Reply


def chat(text: str = "hello", *, stream: bool = False, **more: Any) -> dict[str, Any]:
    """A chat completion with one user turn."""
    message = {"role": "user", "content": text}
    return {"model": "tiny", "messages": [message], "stream": stream, "max_tokens": 16, **more}


def completion(prompt: str | list[int], *, stream: bool = False, **more: Any) -> dict[str, Any]:
    """A text completion of a text or of token ids."""
    return {"model": "tiny", "prompt": prompt, "stream": stream, "max_tokens": 16, **more}


def assert_openai_error(reply: Reply, status: int) -> dict[str, Any]:
    """Holds a reply against OpenAI's error shape, and gives its `error`."""
    assert reply.status == status, (reply.status, reply.body)
    assert (reply.get("content-type") or "").startswith("application/json")
    error: dict[str, Any] = reply.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["type"], str)
    return error
