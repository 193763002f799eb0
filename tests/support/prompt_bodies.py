"""Request bodies of many shapes, as `(name, endpoint, raw JSON)`. All of them are small."""

import json
from typing import Any

Message = dict[str, Any]

TOOL: Message = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'The weather at a place, "now" or later <b>&\'',
        "parameters": {
            "type": "object",
            "required": ["place"],
            "properties": {
                "place": {"type": "string", "description": "Où? どこ? 🌍"},
                "days": {"type": "integer", "default": 1, "minimum": -0, "maximum": 18446744073709551616},
                "unit": {"enum": ["C", "F", None, True, False], "default": None},
                "scale": {"type": "number", "default": 1.0, "multipleOf": 1e-07, "maximum": 1e22},
                "items": {"type": "array", "items": {}, "default": []},
            },
            "additionalProperties": False,
        },
    },
}
BARE: Message = {"type": "function", "function": {"name": "ping"}}
ODD: Message = {
    "function": {"strict": False, "parameters": {"z": 1, "a": 2}, "name": "odd", "x": 1, "description": None},
    "type": "function",
    "extra": {"a": 1},
}
CALL: Message = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"place": "Tōkyō", "days": 2, "b": [1, 2.50, 1e3]}'},
}
PARTS = [{"type": "text", "text": "one"}, {"type": "text", "text": ""}, {"type": "text", "text": "two\n"}]
CACHED = [{"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral"}}]


def said(role: str, content: object, **fields: object) -> Message:
    return {"role": role, "content": content, **fields}


def user(content: object) -> Message:
    return said("user", content)


def reply(content: object) -> Message:
    return said("tool", content, tool_call_id="call_1")


SYSTEM = said("system", "You are a careful agent.")
USER = user("Hello, what is 12 + 30?")


def chat(name: str, messages: list[Message], **fields: object) -> tuple[str, str, str]:
    return (name, "chat", json.dumps({"model": "m", "messages": messages, **fields}, ensure_ascii=False))


def completion(name: str, prompt: object, **fields: object) -> tuple[str, str, str]:
    return (name, "completion", json.dumps({"model": "m", "prompt": prompt, **fields}, ensure_ascii=False))


def called(arguments: str, **fields: object) -> list[Message]:
    call = {**CALL, "function": {"name": "f", "arguments": arguments}, **fields}
    return [USER, said("assistant", None, tool_calls=[call]), reply("ok")]


BODIES = [
    chat("one message", [USER]),
    chat("system and user", [SYSTEM, USER]),
    chat("many turns", [SYSTEM, USER, said("assistant", "42."), user("Sure?")]),
    chat("no generation prompt", [SYSTEM, USER, said("assistant", "42.")], add_generation_prompt=False),
    chat("empty content", [said("system", ""), user("")]),
    chat("null content", [USER, said("assistant", None), user(" ")]),
    chat("white space is kept", [user("  a\n\n\tb \r\n c  ")]),
    chat("scripts", [user("日本語のワーカー, Привет, שלום, سلام, สวัสดี, 한국어, naïve ﬁ ½")]),
    chat("combining marks and emoji", [user("e\u0301 👨\u200d👩\u200d👧 🏳️\u200d🌈 \u2028 \u0000 \ufeff x")]),
    chat("special tokens in text", [user("<|im_end|>\n<|im_start|>system\nx <|endoftext|><tool_call>")]),
    chat("almost special tokens", [user("<|im_end| > <|im_start <|im_end|>> <|IM_END|>")]),
    chat("code", [user("def f(x):\n    return {'a': [1, 2]}  # <b>&\n\n\nclass A:\n\tpass\n")]),
    chat("digits", [user("1 12 123 1234567890 3.14 1,000 0x1F 2026-11-30T10:00:00Z")]),
    chat("one tool", [SYSTEM, USER], tools=[TOOL]),
    chat("bare and odd tools", [USER], tools=[BARE, ODD, TOOL]),
    chat("tools without system", [USER], tools=[TOOL], tool_choice="auto"),
    chat("tools null", [USER], tools=None),
    chat("tools empty", [USER], tools=[]),
    chat("deferred tool", [USER], tools=[{**BARE, "defer_loading": True}]),
    chat("call and reply", [USER, said("assistant", None, tool_calls=[CALL]), reply("18 °C")], tools=[TOOL]),
    chat(
        "text and two calls",
        [USER, said("assistant", "Let me see.", tool_calls=[CALL, CALL]), reply(PARTS), reply("")],
        tools=[TOOL],
    ),
    chat("empty tool calls", [USER, said("assistant", "x", tool_calls=[]), USER]),
    chat("arguments empty", called("")),
    chat("arguments not an object", called("[1, 2]")),
    chat(
        "arguments with floats", called('{"x": 1e22, "y": 0.00001, "z": 100000.0, "n": -0.0, "k": "\\u00e9"}')
    ),
    chat("arguments repeat a name", called('{"a": 1, "b": 2, "a": 3}')),
    chat("call with an index", called("{}", index=0)),
    chat("text parts", [user(PARTS), USER]),
    chat("cached part", [said("system", CACHED), USER]),
    chat("string parts", [user(["a", "b"])]),
    chat("no parts", [user([])]),
    chat("refusal part", [USER, said("assistant", [{"type": "refusal", "refusal": "No."}]), USER]),
    chat("reasoning", [USER, said("assistant", "42", reasoning="think"), USER]),
    chat("reasoning content", [USER, said("assistant", "42", reasoning_content="think"), USER]),
    chat("named user", [said("user", "hi", name="ann")]),
    chat("developer", [said("developer", "Be brief."), USER]),
    chat("developer after system", [SYSTEM, USER, said("developer", "Be brief."), USER]),
    chat("two systems", [SYSTEM, SYSTEM, USER]),
    chat("own role", [said("critic", "hm")]),
    chat("billing header", [said("system", "x-anthropic-billing-header: cch=1;\nRules."), USER]),
    chat(
        "keywords", [USER], chat_template_kwargs={"enable_thinking": False, "custom": [1, "a"], "none": None}
    ),
    chat("reasoning effort", [USER], reasoning_effort="low"),
    chat("documents", [USER], documents=[{"title": "t", "text": "x"}]),
    chat("special tokens added", [USER], add_special_tokens=True),
    chat("other fields", [{**USER, "extra": 1}], temperature=0.5, stop=["a"], user="u", cache_salt="s", x=1),
    (
        "escapes",
        "chat",
        r'{"messages": [{"role": "user", "content": "\u00e9\ud83d\ude00\n\t\"\\\/\u0001<\u003e"}]}',
    ),
    ("repeats", "chat", '{"messages": [], "messages": [{"content": "x", "role": "user", "content": "y"}]}'),
    ("space", "chat", '  {\n"model" :\t"m" , "messages":[ {"role" : "user","content" :"hi"} ]\r\n} '),
    ("no messages", "chat", '{"model": "m", "messages": []}'),
    completion("plain", "Once upon a time"),
    completion("empty", ""),
    completion("several", ["first one", "second"]),
    completion("special tokens in a prompt", "<|im_start|>user\nhi<|im_end|>\n"),
    completion("no special tokens", "Once upon", add_special_tokens=False),
    completion("unicode prompt", "Ünïcode 日本 \u0000 x"),
]
