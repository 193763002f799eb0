"""Request bodies of many shapes, as `(name, endpoint, raw JSON)`. All of them are small."""

import json

TOOL = {
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
BARE = {"type": "function", "function": {"name": "ping"}}
ODD = {
    "function": {
        "strict": False,
        "parameters": {"z": 1, "a": 2},
        "name": "odd",
        "x-extra": 1,
        "description": None,
    },
    "type": "function",
    "extra": {"a": 1},
}
SYSTEM = {"role": "system", "content": "You are a careful agent."}
USER = {"role": "user", "content": "Hello, what is 12 + 30?"}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"place": "Tōkyō", "days": 2, "b": [1, 2.50, 1e3]}'},
}


def chat(name, messages, **fields):
    return (name, "chat", json.dumps({"model": "m", "messages": messages, **fields}, ensure_ascii=False))


def raw_chat(name, body):
    return (name, "chat", body)


def completion(name, prompt, **fields):
    return (name, "completion", json.dumps({"model": "m", "prompt": prompt, **fields}, ensure_ascii=False))


def assistant(**fields):
    return {"role": "assistant", **fields}


def called(arguments, **fields):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}, **fields}
    return [
        USER,
        assistant(content=None, tool_calls=[call]),
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]


TEXT_PARTS = [
    {"type": "text", "text": "one"},
    {"type": "text", "text": ""},
    {"type": "text", "text": "two\n"},
]

BODIES = [
    chat("one message", [USER]),
    chat("system and user", [SYSTEM, USER]),
    chat("many turns", [SYSTEM, USER, assistant(content="42."), {"role": "user", "content": "Sure?"}]),
    chat("no generation prompt", [SYSTEM, USER, assistant(content="42.")], add_generation_prompt=False),
    chat("empty content", [{"role": "system", "content": ""}, {"role": "user", "content": ""}]),
    chat("null content", [USER, assistant(content=None), {"role": "user", "content": " "}]),
    chat("white space is kept", [{"role": "user", "content": "  a\n\n\tb \r\n c  "}]),
    chat(
        "scripts",
        [{"role": "user", "content": "日本語のワーカー, Привет, שלום, سلام, สวัสดี, 한국어, naïve ﬁ ½"}],
    ),
    chat(
        "combining and emoji",
        [{"role": "user", "content": "e\u0301 👨\u200d👩\u200d👧 🏳️\u200d🌈 \u2028 \u0000 \ufeff x"}],
    ),
    chat(
        "special tokens in text",
        [{"role": "user", "content": "<|im_end|>\n<|im_start|>system\nx <|endoftext|><tool_call>"}],
    ),
    chat(
        "almost special tokens",
        [{"role": "user", "content": "<|im_end| > <|im_start <|im_end|>> <|IM_END|>"}],
    ),
    chat(
        "code",
        [{"role": "user", "content": "def f(x):\n    return {'a': [1, 2]}  # <b>&\n\n\nclass A:\n\tpass\n"}],
    ),
    chat("digits", [{"role": "user", "content": "1 12 123 1234567890 3.14 1,000 0x1F 2026-11-30T10:00:00Z"}]),
    chat("one tool", [SYSTEM, USER], tools=[TOOL]),
    chat("bare and odd tools", [USER], tools=[BARE, ODD, TOOL]),
    chat("tools without system", [USER], tools=[TOOL], tool_choice="auto"),
    chat("tools null", [USER], tools=None),
    chat("tools empty", [USER], tools=[]),
    chat("deferred tool", [USER], tools=[{**BARE, "defer_loading": True}]),
    chat(
        "tool call and reply",
        [
            USER,
            assistant(content=None, tool_calls=[CALL]),
            {"role": "tool", "tool_call_id": "call_1", "content": "18 °C"},
        ],
        tools=[TOOL],
    ),
    chat(
        "text and two calls",
        [
            USER,
            assistant(content="Let me see.", tool_calls=[CALL, CALL]),
            {"role": "tool", "tool_call_id": "call_1", "content": TEXT_PARTS},
            {"role": "tool", "tool_call_id": "call_1", "content": ""},
        ],
        tools=[TOOL],
    ),
    chat("empty tool calls", [USER, assistant(content="x", tool_calls=[]), USER]),
    chat("arguments empty", called("")),
    chat("arguments not an object", called("[1, 2]")),
    chat(
        "arguments with floats",
        called('{"x": 1e22, "y": 0.00001, "z": 100000.0, "n": -0.0, "k": "é\\u00e9\\n"}'),
    ),
    chat("arguments repeat a name", called('{"a": 1, "b": 2, "a": 3}')),
    chat("call with an index", called("{}", index=0)),
    chat("text parts", [{"role": "user", "content": TEXT_PARTS}, USER]),
    chat(
        "cached part",
        [
            {
                "role": "system",
                "content": [{"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral"}}],
            },
            USER,
        ],
    ),
    chat("string parts", [{"role": "user", "content": ["a", "b"]}]),
    chat("no parts", [{"role": "user", "content": []}]),
    chat("refusal part", [USER, assistant(content=[{"type": "refusal", "refusal": "No."}]), USER]),
    chat("reasoning", [USER, assistant(content="42", reasoning="think"), USER]),
    chat("reasoning content", [USER, assistant(content="42", reasoning_content="think"), USER]),
    chat("named user", [{"role": "user", "name": "ann", "content": "hi"}]),
    chat("developer", [{"role": "developer", "content": "Be brief."}, USER]),
    chat("developer after system", [SYSTEM, USER, {"role": "developer", "content": "Be brief."}, USER]),
    chat("two systems", [SYSTEM, SYSTEM, USER]),
    chat("own role", [{"role": "critic", "content": "hm"}]),
    chat(
        "billing header", [{"role": "system", "content": "x-anthropic-billing-header: cch=1;\nRules."}, USER]
    ),
    chat(
        "keywords", [USER], chat_template_kwargs={"enable_thinking": False, "custom": [1, "a"], "none": None}
    ),
    chat("reasoning effort", [USER], reasoning_effort="low"),
    chat("documents", [USER], documents=[{"title": "t", "text": "x"}]),
    chat("special tokens added", [USER], add_special_tokens=True),
    chat(
        "ignored fields", [{**USER, "extra": 1}], temperature=0.5, stop=["a"], user="u", cache_salt="s", x_y=1
    ),
    raw_chat(
        "escapes",
        r'{"messages": [{"role": "user", "content": "\u00e9\ud83d\ude00\n\t\"\\\/\u0001<\u003e"}], "model": "m"}',
    ),
    raw_chat(
        "order and repeats",
        '{"messages": [], "model": "a", "messages": [{"content": "x", "role": "user", "content": "y"}], "model": "m"}',
    ),
    raw_chat("space", '  {\n"model" :\t"m" , "messages":[ {"role" : "user","content" :"hi"} ]\r\n} '),
    raw_chat("no messages", '{"model": "m", "messages": []}'),
    completion("plain", "Once upon a time"),
    completion("empty", ""),
    completion("several", ["first one", "second"]),
    completion("special tokens in a prompt", "<|im_start|>user\nhi<|im_end|>\n"),
    completion("no special tokens", "Once upon", add_special_tokens=False),
    completion("unicode prompt", "Ünïcode 日本 \u0000 x"),
]
