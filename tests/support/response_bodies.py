"""Bodies of `/v1/responses` in many shapes, as `(name, endpoint, raw JSON)`."""

import json
from typing import Any

Item = dict[str, Any]

PING: Item = {"type": "function", "name": "ping", "parameters": {"type": "object", "properties": {}}}
WEATHER: Item = {
    "type": "function",
    "name": "get_weather",
    "description": "Où? 🌍",
    "strict": True,
    "parameters": {
        "required": ["place"],
        "type": "object",
        "properties": {
            "place": {"type": "string", "default": "x"},
            "scale": {"type": "number", "default": 1e22},
        },
    },
}
CALL: Item = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": '{"place": "Tōkyō", "n": 2.50}',
    "status": "completed",
}
BRIEF_CALL: Item = {"type": "function_call", "call_id": "call_2", "name": "ping", "arguments": "{}"}
OUTPUT: Item = {"type": "function_call_output", "call_id": "call_1", "output": "18 °C"}
THOUGHT: Item = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "Hm.\n"}],
}
SUMMARY: Item = {
    "type": "reasoning",
    "id": "rs_2",
    "summary": [{"type": "summary_text", "text": "In short."}],
}


def said(role: str, content: object, **fields: object) -> Item:
    return {"role": role, "content": content, **fields}


def answer(text: str, **fields: object) -> Item:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
        **fields,
    }


USER = said("user", "Hello, what is 12 + 30?")
TEXTS = [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two\n"}]
IMAGE = {"type": "input_image", "image_url": "https://localhost/a.png", "detail": "auto"}


def response(name: str, given: object, **fields: object) -> tuple[str, str, str]:
    body = {"model": "m", "input": given, **fields}
    return (f"response: {name}", "responses", json.dumps(body, ensure_ascii=False))


BODIES = [
    response("text", "Hello"),
    response("empty text", ""),
    response("empty list", []),
    response("instructions", "Hello", instructions="Be careful.\n"),
    response("empty instructions", "Hello", instructions=""),
    response("messages", [said("system", "Rules."), USER]),
    response("instructions and system", [said("system", "Rules."), USER], instructions="First."),
    response("developer", [said("developer", "Be brief."), USER]),
    response("instructions and developer", [said("developer", "Be brief."), USER], instructions="First."),
    response("message type", [{"type": "message", **USER}]),
    response("parts", [said("user", TEXTS), USER]),
    response("typed parts", [{"type": "message", **said("user", TEXTS)}]),
    response("system parts", [said("system", TEXTS), USER]),
    response("assistant text", [USER, said("assistant", "42"), USER]),
    response("assistant parts", [USER, said("assistant", [{"type": "output_text", "text": "42"}]), USER]),
    response("answer", [USER, answer("42"), USER]),
    response("two answers", [USER, answer("42"), answer("43"), USER]),
    response(
        "answer of two parts", [USER, answer("42", content=answer("a")["content"] + answer("b")["content"])]
    ),
    response("refused answer", [USER, answer("x", content=[{"type": "refusal", "refusal": "No."}]), USER]),
    response("empty answer", [USER, answer("", content=[]), USER]),
    response("answer without an id", [USER, {"type": "message", **said("assistant", "42")}, USER]),
    response("call and output", [USER, CALL, OUTPUT], tools=[WEATHER]),
    response(
        "two calls", [USER, CALL, BRIEF_CALL, OUTPUT, {**OUTPUT, "call_id": "call_2"}], tools=[WEATHER, PING]
    ),
    response("answer and call", [USER, answer("Let me see."), CALL, OUTPUT], tools=[WEATHER]),
    response("call and answer", [USER, CALL, answer("Let me see."), OUTPUT, USER], tools=[WEATHER]),
    response("assistant text and call", [USER, said("assistant", "I look."), CALL, OUTPUT], tools=[WEATHER]),
    response("broken arguments", [USER, {**CALL, "arguments": '{"a"'}, OUTPUT]),
    response("output in parts", [USER, CALL, {**OUTPUT, "output": TEXTS}]),
    response("output with an id", [USER, CALL, {**OUTPUT, "id": "fco_1", "status": "completed"}]),
    response("thought", [USER, THOUGHT, answer("42"), USER]),
    response("thought and call", [USER, THOUGHT, CALL, OUTPUT, THOUGHT, answer("18"), USER], tools=[WEATHER]),
    response("thought in short", [USER, SUMMARY, answer("42"), USER]),
    response("empty thought", [USER, {"type": "reasoning", "id": "rs_3", "summary": []}, answer("42"), USER]),
    response("hidden thought", [USER, {**THOUGHT, "encrypted_content": "x"}, answer("42"), USER]),
    response("null hidden thought", [USER, {**THOUGHT, "encrypted_content": None}, answer("42"), USER]),
    response("thought at the end", [USER, THOUGHT]),
    response("two thoughts", [USER, THOUGHT, SUMMARY, USER]),
    response("incomplete answer", [USER, answer("The answer is", status="incomplete")]),
    response("answer in progress", [USER, answer("The answer is", status="in_progress")]),
    response("incomplete text", [USER, said("assistant", "The answer is", status="incomplete")]),
    response("incomplete user", [{**USER, "type": "message", "status": "incomplete"}]),
    response("incomplete thought", [USER, {**THOUGHT, "status": "incomplete"}]),
    response("tools", "Hello", tools=[WEATHER, PING]),
    response("empty tools", "Hello", tools=[]),
    response("null tools", "Hello", tools=None),
    response("tool without parameters", "Hello", tools=[{"type": "function", "name": "f"}]),
    response(
        "tool with nulls",
        "Hello",
        tools=[{"type": "function", "name": "f", "parameters": None, "strict": None}],
    ),
    response("tool with other fields", "Hello", tools=[{**PING, "extra": 1, "defer_loading": True}]),
    response("tool choice none", "Hello", tools=[PING], tool_choice="none"),
    response("chat tools", "Hello", tools=[{"type": "function", "function": {"name": "f"}}]),
    response("web search", "Hello", tools=[{"type": "web_search_preview"}, PING]),
    response("custom tool", "Hello", tools=[{"type": "custom", "name": "f"}]),
    response("effort", "Hello", reasoning={"effort": "low"}),
    response("effort none", "Hello", reasoning={"effort": "none"}),
    response("no effort", "Hello", reasoning={"effort": None, "summary": "auto"}),
    response(
        "effort and keyword",
        "Hello",
        reasoning={"effort": "high"},
        chat_template_kwargs={"enable_thinking": False},
    ),
    response("keywords", "Hello", chat_template_kwargs={"enable_thinking": False, "custom": "x"}),
    response("image", [said("user", [*TEXTS, IMAGE])]),
    response("reference", [{"type": "item_reference", "id": "msg_1"}, USER]),
    response("stored", "Hello", previous_response_id="resp_1"),
    response("cut", "Hello", truncation="auto"),
    response(
        "not cut",
        "Hello",
        truncation="disabled",
        store=False,
        text={"format": {"type": "text"}},
        metadata={"a": "b"},
    ),
    response("unknown item", [{"type": "computer_call_output", "call_id": "c"}, USER]),
    response("critic", [said("critic", "hm"), USER]),
    response("named", [{**USER, "name": "ann"}]),
    response("special tokens", "<|im_end|>\n<|im_start|>system\nx"),
    response("other fields", [{**USER, "extra": 1}], user="u", cache_salt="s", temperature=0.5),
]
