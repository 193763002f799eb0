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


NESTED: Message = {
    "type": "function",
    "function": {
        "name": "book",
        "description": 'Multi\nline: "quotes", \\ and {{ braces }} {% raw %}',
        "strict": True,
        "parameters": {
            "$defs": {
                "leg": {"type": "object", "properties": {"to": {"type": "string", "pattern": "^\\w+$"}}}
            },
            "type": "object",
            "properties": {
                "legs": {
                    "type": "array",
                    "items": {"$ref": "#/$defs/leg"},
                    "minItems": 1,
                    "default": [{"to": "x"}],
                },
                "who": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "price": {
                    "type": "number",
                    "exclusiveMinimum": 0.1,
                    "examples": [1.50, 1e-7, 123456789012345680.0],
                },
                "kind": {"type": ["string", "integer"], "enum": ["a", 1, -1.0, True]},
                "nested": {
                    "type": "object",
                    "properties": {"deep": {"type": "object", "properties": {"deeper": {"type": "boolean"}}}},
                    "required": ["deep"],
                },
            },
        },
    },
}
IMAGE = {"type": "image_url", "image_url": {"url": "https://localhost/a.png"}}
THOUGHT = "<think>\nHm, 12 + 30.\n</think>\n\n42."


def call(name: str, arguments: object, **fields: object) -> Message:
    return {
        "id": f"call_{name}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
        **fields,
    }


def answered(*turns: Message, **fields: object) -> list[Message]:
    """A conversation whose last message is the assistant's."""
    return [SYSTEM, USER, said("assistant", "The answer is", **fields), *turns]


CONTINUE: dict[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}

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
    chat("nested tools", [SYSTEM, USER], tools=[NESTED, TOOL, BARE]),
    chat("chosen tool", [USER], tools=[BARE], tool_choice={"type": "function", "function": {"name": "ping"}}),
    chat("no tool chosen", [USER], tools=[BARE], tool_choice="none"),
    chat(
        "tool without parameters",
        [USER],
        tools=[{"type": "function", "function": {"name": "f", "description": ""}}],
    ),
    chat(
        "tool with empty parameters",
        [USER],
        tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
    ),
    chat(
        "parallel calls",
        [
            SYSTEM,
            USER,
            said("assistant", None, tool_calls=[call("a", '{"x": 1}'), call("b", '{"y": [1, {"z": null}]}')]),
            said("tool", "A", tool_call_id="call_a"),
            said("tool", '{"b": true}', tool_call_id="call_b"),
            said("assistant", "Done."),
            user("Thanks"),
        ],
        tools=[TOOL, BARE],
    ),
    chat("calls of several turns", [*called("{}"), *called('{"a": "b"}'), USER], tools=[BARE]),
    chat(
        "empty text and a call", [USER, said("assistant", "", tool_calls=[CALL]), reply("ok")], tools=[TOOL]
    ),
    chat("arguments null", [USER, said("assistant", "", tool_calls=[call("f", None)]), reply("ok")]),
    chat("arguments broken", called('{"a": ')),
    chat("arguments not JSON", called("a: 1")),
    chat("arguments with a tail", called('{"a": 1} x')),
    chat("arguments true", called("true")),
    chat("arguments null text", called("null")),
    chat("arguments with space", called(' \n{"b": "\\n\\t\\"", "a": "<tool_call>"}\n ')),
    chat(
        "arguments with big numbers",
        called('{"n": 123456789012345678901234567890, "m": -9223372036854775809}'),
    ),
    chat("arguments nested", called('{"a": {"b": {"c": [[], {}, [{"d": "e"}]]}}, "s": "日本 \\u65e5 😀"}')),
    chat(
        "arguments as an object", [USER, said("assistant", "", tool_calls=[call("f", {"a": 1})]), reply("ok")]
    ),
    chat("call of another type", [USER, said("assistant", "", tool_calls=[call("f", "{}", type="custom")])]),
    chat("reply in parts", [USER, said("assistant", None, tool_calls=[CALL]), reply(PARTS), USER]),
    chat("reply without parts", [USER, said("assistant", None, tool_calls=[CALL]), reply([]), USER]),
    chat(
        "named reply",
        [USER, said("assistant", None, tool_calls=[CALL]), {**reply("x"), "name": "get_weather"}],
    ),
    chat("reply of JSON", [USER, said("assistant", None, tool_calls=[CALL]), reply('{"t": 18.0, "u": "C"}')]),
    chat("reply without a call", [USER, reply("x"), USER]),
    chat("thinking on", [SYSTEM, USER], chat_template_kwargs={"enable_thinking": True}),
    chat("thinking off", [SYSTEM, USER], chat_template_kwargs={"enable_thinking": False, "thinking": False}),
    chat("thinking by another name", [USER], chat_template_kwargs={"thinking": True, "thinking_mode": "on"}),
    chat("thoughts in the text", [USER, said("assistant", THOUGHT), USER]),
    chat(
        "thoughts of several turns",
        [USER, said("assistant", THOUGHT), USER, said("assistant", THOUGHT), USER],
    ),
    chat(
        "reasoning and a call",
        [
            USER,
            said("assistant", "", reasoning="I call.\n", tool_calls=[CALL]),
            reply("18"),
            said("assistant", "18."),
            USER,
        ],
        tools=[TOOL],
    ),
    chat("empty reasoning", [USER, said("assistant", "42", reasoning=""), USER]),
    chat("both reasonings", [USER, said("assistant", "42", reasoning="a", reasoning_content="b"), USER]),
    chat("reasoning of a user", [{**USER, "reasoning": "x"}, said("assistant", "y", reasoning="z")]),
    chat("effort none", [USER], reasoning_effort="none"),
    chat(
        "effort high",
        [SYSTEM, USER],
        reasoning_effort="high",
        chat_template_kwargs={"enable_thinking": False},
    ),
    chat("effort as a keyword", [USER], chat_template_kwargs={"reasoning_effort": "medium"}),
    chat("effort null", [USER], reasoning_effort=None, chat_template_kwargs={"enable_thinking": None}),
    chat("keyword auto", [USER], chat_template_kwargs={"tool_choice": "auto", "custom": "auto"}),
    chat(
        "keyword of the renderer", [USER], chat_template_kwargs={"add_generation_prompt": False, "tools": []}
    ),
    chat("keyword that is a global", [USER], chat_template_kwargs={"range": 1, "namespace": "x", "dict": {}}),
    chat("keyword that is a token", [USER], chat_template_kwargs={"bos_token": "<b>", "eos_token": "<e>"}),
    chat("keyword date", [SYSTEM, USER], chat_template_kwargs={"date_string": "26 Jul 2024", "today": "x"}),
    chat("keywords empty", [USER], chat_template_kwargs={}),
    chat(
        "documents with parts",
        [SYSTEM, USER],
        documents=[{"title": "a", "text": "é\n"}, {"text": "", "x": "y"}],
    ),
    chat("no documents", [USER], documents=[]),
    chat("documents as a keyword", [USER], chat_template_kwargs={"documents": [{"text": "x"}]}),
    chat("continued", answered(), **CONTINUE),
    chat("continued with space", [USER, said("assistant", "  The answer is \n\n ")], **CONTINUE),
    chat(
        "continued parts",
        [USER, said("assistant", [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}])],
        **CONTINUE,
    ),
    chat("continued user", [SYSTEM, USER], **CONTINUE),
    chat("continued empty", [USER, said("assistant", "")], **CONTINUE),
    chat("continued null", [USER, said("assistant", None)], **CONTINUE),
    chat("continued call", [USER, said("assistant", "x", tool_calls=[CALL])], tools=[TOOL], **CONTINUE),
    chat("continued with thoughts", [USER, said("assistant", THOUGHT)], **CONTINUE),
    chat("continued with a tag", [USER, said("assistant", "CONTINUE_FINAL_MESSAGE_TAG x")], **CONTINUE),
    chat("continued and prompted", answered(), continue_final_message=True),
    chat("not prompted", answered(), add_generation_prompt=False),
    chat("prompted twice", answered()),
    chat("flags as numbers", [USER], add_generation_prompt=0, add_special_tokens=1),
    chat("flags as words", answered(), add_generation_prompt="off", continue_final_message="yes"),
    chat("developer in parts", [said("developer", PARTS), USER, said("developer", "More.")]),
    chat("developer and system", [said("developer", "D."), said("system", "S."), USER]),
    chat("empty developer", [said("developer", ""), USER, said("developer", "x")]),
    chat("named developer", [said("developer", "Be brief.", name="dev"), USER]),
    chat("system later", [USER, said("assistant", "x"), SYSTEM, USER]),
    chat("system only", [SYSTEM]),
    chat("assistant only", [said("assistant", "x")]),
    chat("assistant first", [said("assistant", "Hi."), USER]),
    chat("users in a row", [USER, USER]),
    chat("system in parts", [said("system", PARTS), USER]),
    chat("assistant in parts", [USER, said("assistant", PARTS), user(PARTS)]),
    chat(
        "input and output parts",
        [
            user([{"type": "input_text", "text": "a"}]),
            said("assistant", [{"type": "output_text", "text": "b"}]),
            USER,
        ],
    ),
    chat(
        "thinking part",
        [
            USER,
            said("assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "b"}]),
            USER,
        ],
    ),
    chat("part of an unknown type", [user([{"type": "what", "text": "a"}])]),
    chat("part with another field", [user([{"type": "text", "text": "a", "extra": 1}])]),
    chat("part without a type", [user([{"text": "a"}])]),
    chat("null part", [user([{"type": "text", "text": None}, {"type": "text", "text": "b"}])]),
    chat("image", [user([{"type": "text", "text": "see"}, IMAGE])]),
    chat("named assistant", [USER, said("assistant", "hi", name="bob"), said("user", "x", name="")]),
    chat("unknown role with a call", [USER, said("function", "x", name="f"), USER]),
    chat("billing header alone", [said("system", "x-anthropic-billing-header: cch=1"), USER]),
    chat(
        "billing header in parts",
        [
            said(
                "system",
                [{"type": "text", "text": "x-anthropic-billing-header: a\nb"}, {"type": "text", "text": "c"}],
            ),
            USER,
        ],
    ),
    chat("billing header of a user", [user("x-anthropic-billing-header: cch=1;\nRules.")]),
    chat("braces and tags", [user("{{ x }} {% if %} {# c #} <|tool|> [INST] </s> <s> <think> </think>")]),
    chat(
        "white space around",
        [said("system", "\n s \n"), user("\n\n u \t"), said("assistant", " a \n\n"), user(" ")],
    ),
    chat("line ends", [user("a\r\nb\rc\u2028d\u0085e")]),
    chat("long text", [said("system", "Rules. " * 300), user("x" * 2000)]),
    chat(
        "many turns with calls",
        [SYSTEM, *called("{}") * 3, said("assistant", "end"), USER],
        tools=[TOOL, BARE],
    ),
    chat(
        "odd fields of a message",
        [{**USER, "tool_calls": [], "tool_call_id": "x", "refusal": None, "audio": None}],
    ),
    chat(
        "assistant with nulls",
        [USER, said("assistant", "x", tool_calls=None, refusal=None, function_call=None), USER],
    ),
    chat("ids for reuse", [USER], kv_transfer_params={"prompt_token_ids": [1, 2, 3]}),
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
