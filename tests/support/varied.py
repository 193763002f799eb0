"""Chats and completions of many kinds from a seed, many of which begin like others."""

from __future__ import annotations

import json
import random
from typing import Any

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"

_WORDS = [
    *(
        "the report",
        "SELECT * FROM t WHERE a >= 10;",
        "naïve café",
        "日本語のワーカー",
        "한국어",
        "Привет мир",
        "שלום",
    ),
    *(
        "مرحبا",
        "สวัสดี",
        "👋🏽 👨‍👩‍👧 🇯🇵",
        "e\u0301 n\u0303",
        "ﬁ ½ ℃",
        "1234567 3.14 0x1F",
        "don't I'M we'll",
        "  two  spaces",
    ),
    *(
        "\n\n\n",
        "\t\tif x:\r\n",
        "a\u00a0b\u3000c",
        "\u200b\ufeff",
        "<b>&amp;",
        "</think>",
        "{{ x }} {% if %}",
        '\\n "q" \u2028',
    ),
    *(
        "<|im_end|>",
        "<|im_start|>user\n",
        "<|im_start",
        "<|endoftext|>",
        "<tool_call>",
        "<|IM_END|>",
        "x" * 50,
        "....!!??",
    ),
]
_NAMES = ["lookup", "run_sql", "météo"]


def bodies(seed: int, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Paths and bodies. Each asks for one token and is taken by any worker that lets tools be called."""
    rng = random.Random(seed)
    systems = [_text(rng, 60) for _ in range(4)]
    toolsets = [None, None, [_tool(rng)], [_tool(rng) for _ in range(3)]]
    begun: list[dict[str, Any]] = []
    made: list[tuple[str, dict[str, Any]]] = []
    while len(made) < count:
        kind = rng.random()
        if kind < 0.2:
            made.append((COMPLETION, _completion(rng, systems)))
            continue
        if kind < 0.6 and begun:
            body = _grown(rng, rng.choice(begun))
        else:
            body = _chat(rng, rng.choice(systems), rng.choice(toolsets))
        begun.append(body)
        made.append((CHAT, body))
    return made


def _text(rng: random.Random, words: int) -> str:
    return rng.choice(["", " ", "\n"]).join(rng.choice(_WORDS) for _ in range(rng.randint(words // 2, words)))


def _sampling() -> dict[str, Any]:
    return {"model": "tiny", "max_tokens": 1, "temperature": 0}


def _completion(rng: random.Random, systems: list[str]) -> dict[str, Any]:
    body = {**_sampling(), "prompt": rng.choice(systems) + _text(rng, 30) + "."}
    if rng.random() < 0.3:
        body["add_special_tokens"] = rng.random() < 0.5
    return body


def _chat(rng: random.Random, system: str, tools: list[dict[str, Any]] | None) -> dict[str, Any]:
    messages = [{"role": "system", "content": _parts(rng, system)}] if rng.random() < 0.8 else []
    body = {**_sampling(), "messages": [*messages, _user(rng)]}
    if tools is not None:
        body |= {"tools": tools, "tool_choice": rng.choice(["auto", "none"])}
    if rng.random() < 0.3:
        body["chat_template_kwargs"] = {"enable_thinking": rng.random() < 0.5, "custom": rng.choice(_WORDS)}
    if rng.random() < 0.1:
        body["add_generation_prompt"] = False
    return body


def _grown(rng: random.Random, body: dict[str, Any]) -> dict[str, Any]:
    """The conversation after one more turn, with a tool's call and reply in some."""
    answer: dict[str, Any] = {"role": "assistant", "content": _text(rng, 10)}
    turn = [answer]
    if body.get("tools") and rng.random() < 0.7:
        arguments = json.dumps(
            {"q": _text(rng, 4), "n": [1, 2.5, None, {"é": True}]}, ensure_ascii=rng.random() < 0.5
        )
        call = {"id": "c1", "type": "function", "function": {"name": _NAMES[0], "arguments": arguments}}
        answer |= {"content": rng.choice([None, "Let me see."]), "tool_calls": [call]}
        turn.append({"role": "tool", "tool_call_id": "c1", "content": _parts(rng, _text(rng, 20))})
    return {**body, "messages": [*body["messages"], *turn, _user(rng)]}


def _user(rng: random.Random) -> dict[str, Any]:
    message = {"role": "user", "content": _parts(rng, _text(rng, 20))}
    return {**message, "name": "ann"} if rng.random() < 0.1 else message


def _parts(rng: random.Random, text: str) -> Any:
    """The text, or parts that hold it."""
    if rng.random() < 0.75:
        return text
    middle = rng.randint(0, len(text))
    return [{"type": "text", "text": piece} for piece in (text[:middle], text[middle:])]


def _tool(rng: random.Random) -> dict[str, Any]:
    properties = {
        name: {"type": "string", "description": _text(rng, 6), "default": rng.choice([None, 1.5, "é", [1]])}
        for name in rng.sample(["q", "when", "où", "n"], 2)
    }
    parameters = {"type": "object", "properties": properties, "required": ["q"]}
    function = {"name": rng.choice(_NAMES), "parameters": parameters}
    if rng.random() < 0.7:
        function["description"] = _text(rng, 10)
    return {"type": "function", "function": function}
