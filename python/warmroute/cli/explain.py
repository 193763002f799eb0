"""`warmroute explain`: where a running router would send a prompt, and why."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from warmroute.cli import table
from warmroute.cli.parser import add_options
from warmroute.cli.remote import OPTIONS, Remote, environment
from warmroute.config import Option, Schema, Section, load
from warmroute.errors import ConfigError

Commands = Any

EXPLAIN = Schema(
    [
        Section(
            "prompt",
            "what the file is",
            (
                Option("model", "str", None, "The model that a text is meant for; without it, any worker."),
                Option("chat", "bool", False, "Take a text for a user's message, and not for a prompt."),
                Option("endpoint", "str", None, "The path that a body is meant for, such as `/v1/messages`."),
            ),
        ),
        *OPTIONS.sections,
    ]
)


def register(commands: Commands) -> None:
    """`warmroute explain FILE`."""
    parser = commands.add_parser(
        "explain",
        help="say where a running router would send a prompt, and why",
        usage="warmroute explain FILE [--router URL] [--model NAME] [--json] [OPTIONS]",
        description="Explain where a running router would send a prompt. Nothing is sent or booked.",
    )
    parser.add_argument("file", metavar="FILE", help="an OpenAI body as JSON, or a text; - is standard input")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print the reply as JSON")
    add_options(parser, EXPLAIN)
    parser.set_defaults(run=_explain)


def _explain(parsed: argparse.Namespace) -> int:
    config = load(EXPLAIN, environment=environment(), flags=vars(parsed))
    prompt = config.section("prompt")
    remote = Remote(config.section("router"))
    query = f"?endpoint={quote(prompt['endpoint'])}" if prompt["endpoint"] else ""
    reply = remote.ask("POST", f"/warmroute/v1/explain{query}", body_of(_read(parsed.file), prompt))
    print(json.dumps(reply, indent=2, ensure_ascii=False) if parsed.as_json else render(reply))
    return 0 if reply["decision"] is not None else 1


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ConfigError("FILE", name, f"a file that can be read ({error.strerror})") from None


def body_of(data: bytes, prompt: Mapping[str, Any]) -> bytes:
    """The body to explain: the bytes of a file that is one, or a body around a text."""
    try:
        if isinstance(json.loads(data), dict):
            return data
    except (ValueError, RecursionError):
        pass
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError("FILE", "(not UTF-8)", "an OpenAI body as JSON, or a text in UTF-8") from None
    model = {"model": prompt["model"]} if prompt["model"] else {}
    asked = {"messages": [{"role": "user", "content": text}]} if prompt["chat"] else {"prompt": text}
    return json.dumps({**model, **asked}, ensure_ascii=False).encode()


def render(reply: Mapping[str, Any]) -> str:
    """For people."""
    decision, prompt = reply["decision"], reply["prompt"]
    lines = [f"prompt: {_prompt(prompt)}"]
    if decision is None:
        lines.insert(0, f"no worker: {reply['error']['message']}")
    else:
        lines.insert(0, _decision(decision))
    chosen = decision["worker"] if decision else None
    head = ("", "WORKER", "STATE", "REFUSED", "OVERLAP", "CONFIRMED", "LOWER", "REQUESTS")
    costs = ("WAIT_S", "TRANSFER_S", "PREFILL_S", "DELAY_S", "DECODE_S", "TOTAL_S")
    rows = [_candidate(candidate, chosen) for candidate in reply["candidates"]]
    return "\n".join([*lines, "", table.render((*head, *costs), rows) if rows else "no workers"])


def _decision(decision: Mapping[str, Any]) -> str:
    ttft = decision["predicted_ttft_seconds"]
    return (
        f"{decision['worker']} ({decision['reason']}): {decision['overlap_tokens']} of "
        f"{decision['prompt_tokens']} tokens held, {decision['confirmed_tokens']} confirmed; first token "
        + ("unknown" if ttft is None else f"in {ttft:.3f} s")
    )


def _prompt(prompt: Mapping[str, Any]) -> str:
    because = prompt["inexact_because"] or prompt["inexact"]
    return str(prompt["rung"]) + (f", as {because}" if because else "")


def _candidate(candidate: Mapping[str, Any], chosen: str | None) -> tuple[Any, ...]:
    cost = candidate["cost_seconds"]
    return (
        "*" if candidate["worker"] == chosen else " ",
        candidate["worker"],
        candidate["state"],
        candidate["refusal"] or ("full" if candidate["full"] else None),
        candidate["overlap_tokens"],
        candidate["confirmed_tokens"],
        candidate["lower_tokens"],
        candidate["requests"],
        *(cost[term] for term in ("wait", "transfer", "prefill", "delay", "decode", "total")),
    )
