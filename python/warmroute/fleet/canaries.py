"""Prompts whose tokens tell one tokenizer or chat template from another; no client's text is among them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

CHATS = "/v1/chat/completions"
TEXTS = "/v1/completions"

# Special tokens that are looked at; a tokenizer may have thousands.
SPECIAL_LIMIT = 4
SPECIAL_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Canary:
    """A body without a model, named so that a log can say which one it was."""

    name: str
    path: str
    body: dict[str, Any] = field(hash=False)

    @property
    def is_chat(self) -> bool:
        """Whether the chat template has a part in its tokens."""
        return self.path == CHATS


_TEXTS = {
    "empty": "",
    "one space": " ",
    "English": "Hello, world! It's we'll I'M THEY'RE don't 'twas O'Neill's",
    "code": "def f(x):\n    return {\"a\": [1, 2.5e-3], 'b': None}  # tail\n\n\n\tif x:\r\n\t\tpass\n",
    "digits": "1 12 123 1234 12345 1234567890 3.14159 1,000,000 0x1F \u0661\u0662\u0663 \u00bd \u2167",
    "whitespace": "a  b   c    d\n e \n\n f\t\tg \u00a0h\u3000i\r\n\r\n  ",
    "line ends before marks": "!\n/ ...\n\n--- ===\n ;;; <<>> && || != :=\r\n\r\n",
    "space at both ends": "  leading and trailing  ",
    "accents": "naïve café Ünïcödé Ångström ﬁ ﬂ ² ℃",
    "combining marks": "e\u0301 n\u0303 \u1100\u1161\u11a8 \u0928\u093f a\u0308\u0323",
    "CJK": "分散キャッシュのワーカー 你好，世界 한국어",
    "other scripts": "привет مرحبا שלום สวัสดี",
    "emoji": "👨\u200d👩\u200d👧 🇩🇪 👍🏽 ❤\ufe0f",
    "control characters": "a\x00b\x07c\x1bd\x7fe\u200bf\u2028g\ufeffh",
    "long word": "Donaudampfschifffahrtsgesellschaftskapit\u00e4n" * 3,
}

_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city, in \u00b0C",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "K\u00f6ln, \u6771\u4eac"},
                "days": {"type": "integer", "default": 3, "minimum": 1},
                "unit": {"type": "string", "enum": ["c", "f"]},
            },
            "required": ["city"],
        },
    },
}
_BARE_TOOL = {"type": "function", "function": {"name": "now"}}
_CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "K\u00f6ln", "days": 2, "unit": "c"}'},
}


def _says(role: str, content: Any, **rest: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **rest}


_ASKED = [_says("system", "Be brief."), _says("user", "How is the weather in K\u00f6ln?")]
_TURNS = [
    *_ASKED,
    _says("assistant", "", tool_calls=[_CALL]),
    _says("tool", '{"temperature": 11.5, "sky": "\u2601\ufe0f"}', tool_call_id="call00001"),
    _says("assistant", "11.5 \u00b0C."),
    _says("user", "And tomorrow?"),
]
_CHATS: dict[str, dict[str, Any]] = {
    "chat": {"messages": [_says("user", "Hello")]},
    "chat with system": {"messages": _ASKED},
    "chat in Unicode": {"messages": [_says("user", _TEXTS["CJK"] + _TEXTS["emoji"] + _TEXTS["accents"])]},
    "chat without content": {"messages": [_says("user", "")]},
    "chat with spaces around": {"messages": [_says("user", "  hi  \n"), _says("assistant", "\n yes ")]},
    "chat in parts": {
        "messages": [_says("user", [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])]
    },
    "chat with tools": {"messages": _ASKED, "tools": [_TOOL, _BARE_TOOL]},
    "chat with tool calls": {"messages": _TURNS, "tools": [_TOOL]},
    "chat without generation prompt": {"messages": _ASKED, "add_generation_prompt": False},
}


def canaries(special: Sequence[str]) -> Iterator[Canary]:
    """Some thirty short prompts; `special` are the special tokens of the tokenizer."""
    for name, text in _TEXTS.items():
        yield _text(name, text)
    yield _text("English without special tokens", _TEXTS["English"], add_special_tokens=False)
    known = [token for token in special if 1 < len(token) <= SPECIAL_LENGTH][:SPECIAL_LIMIT]
    for number, token in enumerate(known, 1):
        yield _text(f"special token {number}", f"a {token} b{token}{token}\n {token}")
        yield _text(f"look-alike of special token {number}", f"{token[:-1]} {token[1:]} {token.upper()}")
    for name, body in _CHATS.items():
        yield Canary(name, CHATS, body)
    if known:
        yield Canary("chat with special tokens", CHATS, {"messages": [_says("user", f" {known[0]} x")]})


def _text(name: str, text: str, **rest: Any) -> Canary:
    return Canary(name, TEXTS, {"prompt": text, **rest})
